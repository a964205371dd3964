"""Arrays read and write buffers in buffer."""

import array
import mmap

import pytest

import esker


def test_cells_round_trip(container):
    field = container.create_array("field", 8, 100)
    assert (field.cell_size, field.chunk_size) == (8, 100)
    data = array.array("d", range(1000))
    field.write(50, data)
    assert field.size() == len(field) == 1050
    assert field.read(50, 1000) == data.tobytes()
    again = array.array("d", bytes(8000))
    field.read_into(50, again)
    assert again == data
    assert container.array("field").read(51, 1) == data[1:2].tobytes()


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, "numpy", "mmap"])
def test_every_kind_of_buffer(container, kind):
    data = bytes(range(200))
    if kind == "numpy":
        source = pytest.importorskip("numpy").frombuffer(data, dtype="f4").reshape(5, 10)
    elif kind == "mmap":
        source = mmap.mmap(-1, 200)
        source[:] = data
    else:
        source = kind(data)
    bytes_of_it = container.create_array("bytes")
    bytes_of_it.write(0, source)
    assert bytes_of_it.read(0, 200) == data


def test_numpy_in_place(container):
    numpy = pytest.importorskip("numpy")
    field = container.create_array("field", 4)
    written = numpy.arange(12, dtype="i4").reshape(3, 4)
    field.write(0, written)
    read = numpy.empty_like(written)
    field.read_into(0, read)
    assert (read == written).all()
    with pytest.raises(BufferError, match="contiguous"):
        field.write(0, written[:, ::2])
    with pytest.raises(BufferError, match="contiguous"):
        field.read_into(0, read.T)


def test_part_of_a_buffer_is_filled_in_place(container):
    cells = container.create_array("cells")
    cells.write(0, b"abcdef")
    buffer = bytearray(b"----------")
    cells.read_into(1, memoryview(buffer)[2:5])
    assert buffer == b"--bcd-----"


def test_buffers_of_the_wrong_size_are_rejected(container):
    cells = container.create_array("cells", 8)
    with pytest.raises(ValueError, match="8 bytes"):
        cells.write(0, b"123")
    with pytest.raises(BufferError, match="read-only"):
        cells.read_into(0, b"12345678")
    with pytest.raises(TypeError):
        cells.write(0, "text")
    with pytest.raises(esker.errors.Overflow):
        cells.read(0, 2**62)
    cells.write(0, b"")
    assert cells.size() == 0


def test_a_buffer_is_released_afterwards(container):
    cells = container.create_array("cells")
    buffer = bytearray(b"12345678")
    cells.write(0, buffer)
    cells.read_into(0, buffer)
    buffer.extend(b"9")  # a bytearray that is still exported could not grow


def test_holes(container):
    cells = container.create_array("cells", 1, 10)
    cells.write(25, b"z")
    assert cells.read(0, 26) == bytes(25) + b"z"
    buffer = bytearray(b"x" * 26)
    cells.read_into(0, buffer)
    assert buffer == b"x" * 25 + b"z"
    cells.write(0, b"abc")
    cells.punch(1, 1)
    assert cells.read(0, 3) == b"a\0c"
    cells.set_size(2)
    assert cells.size() == 2
    cells.set_size(40)
    assert cells.size() == 40 and cells.read(30, 10) == bytes(10)


def test_create_and_remove(container):
    container.create_array("a", 4)
    with pytest.raises(esker.Exists):
        container.create_array("a", 4)
    assert container.create_array("a", 8, exist_ok=True).cell_size == 4
    container.array("a").destroy()
    with pytest.raises(FileNotFoundError):
        container.array("a")
    with pytest.raises(ValueError, match="RECORD_SIZE_MAX"):
        container.create_array("b", 0)


def test_arrays_of_objects_are_rejected(container):
    numpy = pytest.importorskip("numpy")
    array = container.create_array("objects", 8)
    mixed = numpy.array([(1, None)], dtype=[("O", "<i4"), ("b", object)])
    for objects in (numpy.array([1, "x"], dtype=object), mixed):
        for use in (array.write, array.read_into):
            with pytest.raises(TypeError, match="holds pointers"):
                use(0, objects)
        with pytest.raises(TypeError, match="holds pointers"):
            container.kv("index")["a"] = objects
    record = numpy.array([(1, 2)], dtype=[("O", "<i4"), ("P", "<i4")])
    array.write(0, record)
    assert array.read(0, 1) == record.tobytes()


def test_errors_contain_the_name(container):
    with pytest.raises(esker.NotFound, match=r'^array "missing" does not exist$'):
        container.array("missing")
    container.create_array("twice")
    with pytest.raises(esker.Exists, match='"twice"'):
        container.create_array("twice")
    with pytest.raises(KeyError, match=r"^key b'nokey' does not exist in the Key-Value$"):
        container.kv("index")["nokey"]
