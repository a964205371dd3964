"""One process of `esker bench fields --peer pyfdb`. It does the work of a worker on a real FDB, or reads the store
that workers of Esker filled.

All fields have the same bytes, generated once. Readers check lengths, not contents.
"""
import os
import random

from esker_bench import Meter, pin, serve

SCHEMA = """[ class, expver, stream, date, time, domain?
  [ type, levtype
    [ step?, number?, levelist?, param ]]]
"""
SCATTERED_MAX = 1000


class Worker:
    """Base class of both workers: the fields, and the selection of those to read."""

    def __init__(self, job):
        self.job, self.shape = job, job["shape"]
        self.rank, self.procs = job["rank"], job["procs"]
        pin(job["cpu"])
        self.size = self.shape["size_bytes"]
        self.buffer = bytearray(self.size)
        self.per_step = self.shape["members"] * self.shape["levels"] * self.shape["params"]
        self.fields = self.shape["steps"] * self.per_step

    def key(self, owner, index):
        rest, param = divmod(index, self.shape["params"])
        rest, level = divmod(rest, self.shape["levels"])
        step, member = divmod(rest, self.shape["members"])
        number = owner * self.shape["members"] + member + 1
        return {**self.job["forecast"], "step": str(step), "number": str(number), "levelist": str(level + 1), "param": str(param + 1)}

    def request(self, owners):
        def words(first, count):
            return [str(value) for value in range(first, first + count)]

        members = self.shape["members"]
        return {
            **self.job["forecast"],
            "step": words(0, self.shape["steps"]),
            "number": words(owners.start * members + 1, len(owners) * members),
            "levelist": words(1, self.shape["levels"]),
            "param": words(1, self.shape["params"]),
        }

    def neighbour(self):
        return (self.rank + 1) % self.procs

    def retrieve(self, count=None):
        owner = self.neighbour()
        return self.one_by_one([(owner, index) for index in range(count or self.fields)])

    def expected(self, count, procs):
        if count != self.fields * procs:
            raise RuntimeError(f"found {count} of {self.fields * procs} archived fields")
        return count


class Fdb(Worker):
    """A real FDB."""

    def __init__(self, job):
        import pyfdb

        super().__init__(job)
        self.new = pyfdb.FDB
        self.data = random.Random(job["seed"]).randbytes(self.size)
        self.messages = []
        if job["grib"] is not None:
            with open(job["grib"], "rb") as file:
                grib = file.read()
            self.messages = [grib[begin : begin + length] for begin, length in job["messages"]]

    def prepare(self, step):
        """Open a new FDB each time, because an open one does not see what other processes flushed."""
        root = os.path.join(self.job["files"], f"{self.job['container']}-{step['round']}", "fdb")
        os.makedirs(os.path.join(root, "data"), exist_ok=True)
        schema = os.path.join(root, f"schema-{self.rank}")
        with open(schema, "w") as file:
            file.write(SCHEMA)
        spaces = [{"handler": "Default", "roots": [{"path": os.path.join(root, "data")}]}]
        self.fdb = self.new({"type": "local", "engine": "toc", "schema": schema, "spaces": spaces})

    def archive(self):
        meter = Meter()
        for index in range(self.fields):
            self.fdb.archive(self.data, self.key(self.rank, index))
            if (index + 1) % self.per_step == 0:
                self.fdb.flush()
            meter.tick(1, self.size)
        return meter

    def archive_grib(self):
        meter = Meter()
        for number in range(self.fields):
            message = self.messages[number % len(self.messages)]
            self.fdb.archive(message)
            if (number + 1) % self.per_step == 0:
                self.fdb.flush()
            meter.tick(1, len(message))
        return meter

    def in_order(self):
        return self.retrieve(min(self.fields, SCATTERED_MAX))

    def scattered(self):
        some = random.Random(self.job["seed"] ^ self.rank)
        count = min(self.fields, SCATTERED_MAX)
        any_of = [(some.randrange(self.procs), some.randrange(self.fields)) for _ in range(count)]
        return self.one_by_one(any_of)

    def one_by_one(self, fields):
        meter = Meter()
        for owner, index in fields:
            with self.fdb.retrieve(self.key(owner, index)) as handle:
                self.fill(handle)
            meter.tick(1, self.size)
        return meter

    def fill(self, handle):
        """Reads one field into the buffer; a read may return fewer bytes than requested."""
        view, got = memoryview(self.buffer), 0
        while got < self.size:
            count = handle.readinto(view[got:])
            if count <= 0:
                raise RuntimeError(f"{got} of {self.size} bytes of a field")
            got += count

    def retrieve_request(self):
        owner = self.neighbour()
        meter = Meter()
        with self.fdb.retrieve(self.request(range(owner, owner + 1))) as handle:
            for _ in range(self.fields):
                self.fill(handle)
                meter.tick(1, self.size)
        return meter

    def list(self):
        meter = Meter()
        count = sum(1 for _ in self.fdb.list(self.request(range(self.procs))))
        meter.tick(self.expected(count, self.procs), 0)
        return meter

    def axes(self):
        meter = Meter()
        axes = self.fdb.axes(self.job["forecast"])
        count = len(list(axes["step"])) * len(list(axes["number"])) * len(list(axes["levelist"])) * len(list(axes["param"]))
        meter.tick(self.expected(count, self.procs), 0)
        return meter

    def run(self, step):
        work = {
            "archive": self.archive,
            "archive_grib": self.archive_grib,
            "retrieve": self.retrieve,
            "request": self.retrieve_request,
            "in_order": self.in_order,
            "scattered": self.scattered,
            "list": self.list,
            "axes": self.axes,
        }
        return work[step["phase"]]().result()


class Esker(Worker):
    """The store that workers of Esker filled; read-only."""

    def __init__(self, job):
        import esker

        super().__init__(job)
        self.esker = esker
        self.pool = esker.Pool(job["pool"])

    def prepare(self, step):
        label = f"{self.job['container']}-{step['round']}"
        self.store = self.esker.FieldStore(self.pool, "r", label)

    def one_by_one(self, fields):
        meter = Meter()
        for owner, index in fields:
            (field,) = self.store.retrieve(self.key(owner, index))
            field.read_into(self.buffer)
            meter.tick(1, self.size)
        return meter

    def all(self):
        owner = self.neighbour()
        fields = self.store.retrieve(self.request(range(owner, owner + 1)))
        self.expected(len(fields), 1)
        return fields

    def retrieve_request(self):
        meter = Meter()
        for field in self.all():
            field.read_into(self.buffer)
            meter.tick(1, self.size)
        return meter

    def views(self):
        meter = Meter()
        for field in self.all():
            meter.tick(1, len(field.view()))
        return meter

    def run(self, step):
        work = {
            "python_retrieve": self.retrieve,
            "python_request": self.retrieve_request,
            "python_views": self.views,
        }
        return work[step["phase"]]().result()


STORES = {"esker": Esker, "pyfdb": Fdb}

serve(lambda job: STORES[job["store"]](job))
