"""One process of `esker bench zarr`: arrays in `esker.zarr.Store`, and in zarr's own LocalStore.

Each process has an array of bytes in each store, one chunk after the other, without compression. What it
reads is the array of the next process, which it compares.
"""

import asyncio
import os
import shutil

import numpy
import zarr
from esker_bench import NOTHING, Meter, pin, serve
from zarr.storage import LocalStore

import esker.zarr

# Chunks that a commit replaces.
COMMIT_CHUNKS = 16
# Number of listings of all keys of an array.
LISTINGS = 5


class Work:
    """The arrays of a process."""

    def __init__(self, job):
        self.job = job
        pin(job["cpu"])
        self.size, self.count = job["size_bytes"], job["chunks"]
        self.data, self.other = (self.random_bytes(job["rank"], salt) for salt in range(2))
        self.next = (job["rank"] + 1) % job["procs"]
        self.expected = self.random_bytes(self.next, 0)

    def random_bytes(self, rank, salt):
        draws = numpy.random.default_rng([self.job["seed"], rank, salt])
        return draws.integers(0, 256, self.size * self.count, dtype="u1")

    def prepare(self, step):
        """Open the store again, so that a phase sees the changes of other processes."""
        self.folder = os.path.join(self.job["files"], f"{self.job['container']}-{step['round']}")
        self.own_path = f"{step['round']}/{self.job['rank']}"
        self.neighbour_path = f"{step['round']}/{self.next}"
        self.is_local = step["store"] == "local"
        self.store = LocalStore(self.folder) if self.is_local else esker.zarr.Store(self.job["url"])

    def run(self, step):
        work = {
            "write": self.write,
            "read": self.read,
            "list": self.list,
            "commit": self.commit,
            "remove": self.remove,
        }
        return work[step["phase"]]()

    def write(self):
        """Create an array and write all of it."""
        meter = Meter()
        array = zarr.create_array(
            self.store,
            name=self.own_path,
            shape=self.data.shape,
            chunks=(self.size,),
            dtype="u1",
            compressors=None,
            filters=None,
        )
        array[:] = self.data
        meter.tick(self.count, self.data.nbytes)
        return meter.result()

    def read(self):
        """Read the array of the next process."""
        meter = Meter()
        found = zarr.open_array(self.store, path=self.neighbour_path, mode="r")[:]
        meter.tick(self.count, found.nbytes)
        if not numpy.array_equal(found, self.expected):
            raise RuntimeError(f"the array {self.neighbour_path} is not the one written")
        return meter.result()

    def list(self):
        """List the keys of the array of the next process."""
        return asyncio.run(self.listings())

    async def listings(self):
        meter = Meter()
        for _ in range(LISTINGS):
            found = [key async for key in self.store.list_prefix(f"{self.neighbour_path}/")]
            meter.tick(len(found), 0)
            if len(found) != self.count + 1:
                raise RuntimeError(f"{len(found)} keys were listed of {self.count + 1}")
        return meter.result()

    def commit(self):
        """Replace chunks, some in each commit; a LocalStore has no commits, its chunks are replaced one by one."""
        meter = Meter()
        for begin in range(0, self.count, COMMIT_CHUNKS):
            part = slice(begin * self.size, (begin + COMMIT_CHUNKS) * self.size)
            if self.is_local:
                self.replace(self.store, part)
            else:
                with self.store.transaction("chunks") as session:
                    self.replace(session, part)
            meter.tick(1, self.other[part].nbytes)
        return meter.result()

    def replace(self, store, part):
        zarr.open_array(store, path=self.own_path, mode="r+")[part] = self.other[part]

    def remove(self):
        """Remove the array and its versions; this is not measured."""
        if self.is_local:
            shutil.rmtree(os.path.join(self.folder, self.own_path))
        else:
            asyncio.run(self.store.delete_dir(self.own_path))
            if self.job["rank"] == 0:
                self.store.expire_snapshots(1)
        return NOTHING


serve(Work)
