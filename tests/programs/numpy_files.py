"""numpy: arrays in files, read as a whole, in parts, and mapped."""
import errno
import io
import os

import lib

numpy = lib.need("numpy")
ARRAY = numpy.arange(200_000, dtype="<f8").reshape(400, 500)


def same(one, other):
    assert one.dtype == other.dtype and one.shape == other.shape and (one == other).all()


def test_save_and_load(outside):
    numpy.save("a.npy", ARRAY)
    same(numpy.load("a.npy"), ARRAY)
    numpy.save(outside / "a.npy", ARRAY)
    assert open("a.npy", "rb").read() == open(outside / "a.npy", "rb").read()
    numpy.savez("a.npz", one=ARRAY, two=ARRAY[:3])
    numpy.savez_compressed("c.npz", one=ARRAY, two=ARRAY[:3])
    for name in ("a.npz", "c.npz"):
        with numpy.load(name) as archive:
            same(archive["one"], ARRAY)
            same(archive["two"], ARRAY[:3])
    numpy.save("objects.npy", numpy.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    assert numpy.load("objects.npy", allow_pickle=True)[0] == {"a": 1}
    with open("two.npy", "wb") as file:
        numpy.save(file, ARRAY[:2])
        numpy.save(file, ARRAY[2:])
    with open("two.npy", "rb") as file:
        same(numpy.concatenate([numpy.load(file), numpy.load(file)]), ARRAY)


def test_raw(_):
    ARRAY.tofile("raw")
    assert os.path.getsize("raw") == ARRAY.nbytes
    same(numpy.fromfile("raw").reshape(ARRAY.shape), ARRAY)
    same(numpy.fromfile("raw", count=10, offset=800), ARRAY.reshape(-1)[100:110])
    with open("raw", "r+b") as file:
        file.seek(8000)
        ARRAY[0, :10].tofile(file)
        assert file.tell() == 8080
        same(numpy.fromfile(file, count=5), ARRAY.reshape(-1)[1010:1015])
        assert file.tell() == 8120
    ARRAY[:2].tofile("text", sep=" ")
    same(numpy.fromfile("text", sep=" "), ARRAY[:2].reshape(-1))


def test_text(_):
    numpy.savetxt("t.txt", ARRAY[:20, :7], fmt="%.3f", header="a b")
    same(numpy.loadtxt("t.txt"), ARRAY[:20, :7])
    numpy.savetxt("t.txt.gz", ARRAY[:20, :7])
    same(numpy.loadtxt("t.txt.gz"), ARRAY[:20, :7])
    same(numpy.genfromtxt("t.txt", skip_header=1), ARRAY[:20, :7])
    buffer = io.BytesIO()
    numpy.save(buffer, ARRAY)


def test_mapped_for_reading(_):
    numpy.save("a.npy", ARRAY)
    view = numpy.load("a.npy", mmap_mode="r")
    same(view[17], ARRAY[17])
    same(numpy.asarray(view), ARRAY)
    ARRAY.tofile("raw")
    same(numpy.memmap("raw", dtype="<f8", mode="r", offset=4000, shape=(2, 500)), ARRAY[1:3])
    private = numpy.load("a.npy", mmap_mode="c")
    private[0, 0] = -1
    assert private[0, 0] == -1 and numpy.load("a.npy")[0, 0] == 0


# Shared and writable: works, or is rejected with an error.
def test_mapped_for_writing(_):
    numpy.save("a.npy", ARRAY)
    try:
        view = numpy.load("a.npy", mmap_mode="r+")
    except OSError as error:
        assert error.errno in (errno.ENODEV, errno.ENOTSUP, errno.EACCES), error
        return
    view[5, 5] = -5
    view.flush()
    expected = ARRAY.copy()
    expected[5, 5] = -5
    same(numpy.load("a.npy"), expected)
    new = numpy.memmap("new", dtype="<i4", mode="w+", shape=(1000,))
    new[:] = range(1000)
    del new
    same(numpy.fromfile("new", dtype="<i4"), numpy.arange(1000, dtype="<i4"))
    made = numpy.lib.format.open_memmap("made.npy", mode="w+", dtype="<f8", shape=(10, 10))
    made[3] = 3
    made.flush()
    assert numpy.load("made.npy").sum() == 30


if __name__ == "__main__":
    lib.run_tests(globals())
