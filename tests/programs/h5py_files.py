"""h5py: HDF5 files with the library's default driver, with its locks, and with other drivers."""
import os
import subprocess
import sys

import lib

numpy = lib.need("numpy")
h5py = lib.need("h5py")
ARRAY = numpy.arange(120_000, dtype="<f4").reshape(300, 400)


def test_create_and_read(_):
    with h5py.File("a.h5", "w") as file:
        file["plain"] = ARRAY
        file.create_dataset("packed", data=ARRAY, chunks=(30, 40), compression="gzip", shuffle=True)
        file.create_dataset("summed", data=ARRAY, chunks=(30, 40), fletcher32=True)
        group = file.create_group("group/of/groups")
        group.attrs["text"] = "value"
        group["link"] = h5py.SoftLink("/plain")
        file.create_dataset("strings", data=["one", "two"], dtype=h5py.string_dtype())
    with h5py.File("a.h5", "r") as file:
        for name in ("plain", "packed", "summed", "group/of/groups/link"):
            assert (file[name][:] == ARRAY).all()
        assert (file["packed"][10:20, ::7] == ARRAY[10:20, ::7]).all()
        assert file["group/of/groups"].attrs["text"] == "value"
        assert file["strings"].asstr()[1] == "two"


def test_append_and_resize(_):
    with h5py.File("a.h5", "w") as file:
        file.create_dataset("grows", data=ARRAY[:10], maxshape=(None, 400), chunks=(16, 400))
    for row in range(10, 300, 29):
        with h5py.File("a.h5", "a") as file:
            file["grows"].resize(row + 29, axis=0)
            file["grows"][row:row + 29] = ARRAY[row:row + 29]
            file[f"step{row}"] = row
    with h5py.File("a.h5", "r") as file:
        assert (file["grows"][:] == ARRAY).all() and len(file) == 11
    with h5py.File("a.h5", "r+") as file:
        del file["grows"]
        file.flush()
    with h5py.File("a.h5", "r") as file:
        assert "grows" not in file


def test_many_groups(_):
    with h5py.File("a.h5", "w", libver="latest") as file:
        for i in range(300):
            file[f"g{i}/data"] = ARRAY[i]
    with h5py.File("a.h5", "r") as file:
        assert all((file[f"g{i}/data"][:] == ARRAY[i]).all() for i in range(300))


def test_drivers(_):
    for driver in ("sec2", "stdio", "core"):
        with h5py.File(driver, "w", driver=driver) as file:
            file["data"] = ARRAY
        with h5py.File(driver, "r") as file:
            assert (file["data"][:] == ARRAY).all()
    with h5py.File("part%d", "w", driver="family", memb_size=100_000) as file:
        file["data"] = ARRAY
    with h5py.File("part%d", "r", driver="family", memb_size=100_000) as file:
        assert (file["data"][:] == ARRAY).all()
    with open("object", "w+b") as raw, h5py.File(raw, "w") as file:
        file["data"] = ARRAY
    with h5py.File("object", "r") as file:
        assert (file["data"][:] == ARRAY).all()


def _other_process(mode):
    code = f"import h5py; h5py.File('a.h5', {mode!r})"
    return subprocess.run([sys.executable, "-c", code], stderr=subprocess.DEVNULL, check=False).returncode


# HDF5 uses flock on every open file: it rejects a second writer, and a reader next to a writer.
def test_locks(_):
    with h5py.File("a.h5", "w") as file:
        file["data"] = ARRAY
        assert _other_process("r") != 0 and _other_process("a") != 0
    with h5py.File("a.h5", "r"):
        assert _other_process("r") == 0 and _other_process("a") != 0
    assert _other_process("a") == 0


def test_one_writer_many_readers(_):
    with h5py.File("a.h5", "w", libver="latest") as file:
        data = file.create_dataset("data", shape=(0, 400), maxshape=(None, 400), chunks=(10, 400), dtype="<f4")
        file.swmr_mode = True
        code = "import h5py; d = h5py.File('a.h5', 'r', swmr=True)['data']; print(d.shape[0], int(d[:].sum()))"
        for rows in (10, 50):
            data.resize(rows, axis=0)
            data[:] = 1
            data.flush()
            said = subprocess.check_output([sys.executable, "-c", code])
            assert said.split() == [b"%d" % rows, b"%d" % (rows * 400)]


def test_links_between_files(_):
    with h5py.File("one.h5", "w") as file:
        file["data"] = ARRAY
    with h5py.File("two.h5", "w") as file:
        file["out"] = h5py.ExternalLink("one.h5", "/data")
        layout = h5py.VirtualLayout(shape=(2, 300, 400), dtype="<f4")
        layout[0] = h5py.VirtualSource("one.h5", "data", shape=(300, 400))
        layout[1] = h5py.VirtualSource("one.h5", "data", shape=(300, 400))
        file.create_virtual_dataset("both", layout)
    with h5py.File("two.h5", "r") as file:
        assert (file["out"][:] == ARRAY).all() and (file["both"][1] == ARRAY).all()
    assert os.path.getsize("one.h5") > ARRAY.nbytes


if __name__ == "__main__":
    lib.run_tests(globals())
