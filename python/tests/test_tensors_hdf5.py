"""Tensors as files of HDF5: h5py and others read what was exported, and what they wrote is imported."""

import json
import shutil
import subprocess
import sys

import numpy
import pytest

import esker

h5py = pytest.importorskip("h5py")

_SIMPLE = [
    *(order + code for order in "<>" for code in ("i2", "i4", "u8", "f2", "f4", "f8", "c8", "c16", "U3")),
    *("?", "i1", "u1", "S1", "S7", "V5", "<M8[ns]", ">m8[25s]", numpy.longdouble, numpy.clongdouble),
]

_STRUCTURED = [
    numpy.dtype([("a", "<f4"), ("b", ">i8"), ("c", "S3")]),
    numpy.dtype([("a", "<f4"), ("b", "<f8"), ("\u00f6", "<U2")], align=True),
    numpy.dtype([("a", "<f2", (2, 3)), ("in", [("x", "?"), ("y", "<M8[ns]"), ("z", ">c8")])]),
    numpy.dtype([(f"member {number}", ">u2", (40,)) for number in range(100)]),
]

_LAYOUTS = {"rows": (2, 4), "boxes": (2, 3), "one": (9, 9)}


@pytest.fixture
def tensors(shared_tensors):
    """A new tensor store that the command reaches too."""
    return shared_tensors


def _answer(*arguments):
    """The JSON that a command of `esker tensor` prints; fails if the exit status does not match it."""
    command = [sys.executable, "-m", "esker", "--json", "tensor", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    answer = json.loads(ended.stdout)
    assert (ended.returncode == 0) == (answer["error"] is None), ended.stderr
    return answer


def _run(*arguments):
    """The response of a command that succeeds."""
    answer = _answer(*arguments)
    assert answer["error"] is None, answer
    return answer["response"]


def _refusal(*arguments):
    """The message of a command that fails."""
    return _answer(*arguments)["error"]["message"]


def _filled(shape, dtype):
    """Random elements: valid ones of texts, booleans and numbers, any bytes of other types."""
    dtype, count = numpy.dtype(dtype), int(numpy.prod(shape))
    numbers = numpy.random.default_rng(1).integers(0, 100, count)
    if dtype.names:
        array = numpy.zeros(shape, dtype)
        for name in dtype.names:
            array[name] = _filled(array[name].shape, array.dtype[name].base)
        return array
    if dtype.kind == "b":
        return (numbers % 2 == 1).reshape(shape)
    if dtype.kind in "SUiufc":
        return numbers.astype(dtype).reshape(shape)
    return numpy.frombuffer(numpy.random.default_rng(1).bytes(count * dtype.itemsize), dtype).reshape(shape)


def _same(one, two):
    """Fail unless type, shape and bytes are the same; of structured types compare the members."""
    assert (one.dtype, one.shape) == (two.dtype, two.shape)
    for name in one.dtype.names or ():
        _same(one[name], two[name])
    assert one.dtype.names or one.tobytes() == two.tobytes()


def _export(tensors, name, path, *options):
    """Export a tensor with the command; return its response."""
    return _run("export", tensors.name, name, path, *options)


@pytest.mark.parametrize("dtype", [*_SIMPLE, *_STRUCTURED], ids=lambda dtype: str(dtype)[:30])
def test_every_dtype_survives_export_and_import(tensors, tmp_path, dtype):
    array, path = _filled((5, 4), dtype), tmp_path / "a.h5"
    for layout, options in [("boxes", ()), ("rows", ()), ("boxes", ("--virtual",))]:
        tensors.put(array, "a", chunks=_LAYOUTS[layout])
        _export(tensors, "a", path, *options)
        with h5py.File(path) as file:
            dataset = file["a"]
            assert (dataset.is_virtual, dataset.chunks) == (
                bool(options),
                None if options or layout == "rows" else (2, 3),
            )
            _same(dataset[...], array)
            _same(dataset[1:4:2, 1:], array[1:4:2, 1:])
        if not options:
            _run("import", tensors.name, path, "--name", "b")
            _same(tensors.get("b"), array)
            # Contiguous datasets have no chunks.
            assert layout == "rows" or tensors["b"].chunks == (2, 3)


@pytest.mark.parametrize("layout", _LAYOUTS)
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (7,), (1,) * 32, (2, 5, 6), (30, 7, 50)], ids=str)
def test_every_shape_survives_export_and_import(tensors, tmp_path, shape, layout):
    array, path = _filled(shape, "<f8"), tmp_path / "a.h5"
    first, rest = _LAYOUTS[layout]
    tensors.put(array, "a", chunks=[first, *([rest] * 9)][: len(shape)] if len(shape) < 9 else None)
    for options in [(), ("--virtual",)]:
        if shape == () and options:
            assert "dimensions" in _refusal("export", tensors.name, "a", path, *options)
            continue
        _export(tensors, "a", path, *options)
        with h5py.File(path) as file:
            _same(file["a"][...] if shape else numpy.asarray(file["a"][()]), array)
    _export(tensors, "a", path)
    _run("import", tensors.name, path, "--name", "b")
    _same(tensors.get("b"), array)


_ATTRIBUTES = {
    "units": "K",
    "\u00fcnits": "Grad Celsius \u00b0 \u6e29\u5ea6",
    "step": -3,
    "scale": 0.5,
    "ok": True,
    "raw": b"\0a\0",
    "list": [1, 2, 3],
    "flags": [True, False],
    "texts": ["a", "", "long " * 999],
}


def test_attributes_are_kept(tensors, tmp_path):
    path, mixed = tmp_path / "a.h5", {"mixed": [1, "a", [2.5]], "nested": [[1, 2], [3, 4]]}
    tensors.put(numpy.arange(4.0), "group/name of it", _ATTRIBUTES | mixed | {"none": []}, chunks=(2,))
    for options in [(), ("--virtual",)]:
        _export(tensors, "group/name of it", path, *options)
        with h5py.File(path) as file:
            found = dict(file["group"]["name of it"].attrs)
            assert found.pop("raw").tobytes() == b"\0a\0"
            assert json.loads(found.pop("mixed")) == mixed["mixed"]
            assert json.loads(found.pop("nested")) == mixed["nested"]
            assert found.pop("none").shape == (0,)
            plain = {
                name: value.tolist() if hasattr(value, "tolist") else value for name, value in found.items()
            }
            assert plain == {name: value for name, value in _ATTRIBUTES.items() if name != "raw"}
    _export(tensors, "group/name of it", path)
    assert _run("import", tensors.name, path, "--name", "b")["left_out"] == []
    kept = tensors["b"].attrs
    assert {name: kept[name] for name in _ATTRIBUTES} == _ATTRIBUTES


def test_thousands_of_attributes_and_chunks(tensors, tmp_path):
    attributes = {f"attribute {number}": f"text {number}" for number in range(3000)}
    tensors.put(numpy.arange(3000), "a", attributes, chunks=(1,))
    assert _export(tensors, "a", tmp_path / "a.h5", "--virtual")["chunk_files"] == 3000
    with h5py.File(tmp_path / "a.h5") as file:
        assert dict(file["a"].attrs) == attributes
        assert (file["a"][...] == numpy.arange(3000)).all()


def test_a_virtual_dataset_moves_with_its_directory(tensors, tmp_path):
    (tmp_path / "one 100%b").mkdir()
    tensors.put(numpy.arange(12).reshape(3, 4), "a", chunks=(2, 3))
    _export(tensors, "a", tmp_path / "one 100%b" / "50%b.h5", "--virtual")
    (tmp_path / "one 100%b").rename(tmp_path / "two")
    with h5py.File(tmp_path / "two" / "50%b.h5") as file:
        assert (file["a"][...] == numpy.arange(12).reshape(3, 4)).all()


def test_netcdf_reads_exported_files(tensors, tmp_path):
    netcdf = pytest.importorskip("netCDF4")
    array = _filled((5, 4), ">f4")
    for chunks in [(5, 4), (2, 3)]:
        tensors.put(array, "t2m", _ATTRIBUTES | {"nested": [[1], [2]]}, chunks=chunks)
        _export(tensors, "t2m", tmp_path / "a.nc")
        with netcdf.Dataset(tmp_path / "a.nc") as file:
            assert (file["t2m"][...] == array).all()
            kept = [file["t2m"].getncattr(name) for name in ("units", "scale", "step", "texts")]
            assert kept == ["K", 0.5, -3, _ATTRIBUTES["texts"]]


def test_h5dump_reads_exported_files(tensors, tmp_path):
    if not shutil.which("h5dump"):
        pytest.skip("h5dump is not installed")
    tensors.put(numpy.arange(12.0).reshape(3, 4), "a", {"units": "K"}, chunks=(2, 3))
    for options in [(), ("--virtual",)]:
        _export(tensors, "a", tmp_path / "a.h5", *options)
        dumped = subprocess.run(
            ["h5dump", tmp_path / "a.h5"], capture_output=True, text=True, check=True
        ).stdout
        assert '"K"' in dumped and "(2,0): 8, 9, 10, 11" in dumped


@pytest.mark.parametrize("virtual", [False, True])
def test_python_exports_and_imports_what_the_command_does(tensors, tmp_path, virtual):
    array = _filled((30, 7, 50), ">f4")
    tensors.put(array, "in/a", _ATTRIBUTES, chunks=(4, 7, 9))
    _export(tensors, "in/a", tmp_path / "command.h5", *(["--virtual"] if virtual else []))
    tensors["in/a"].to_hdf5(tmp_path / "python.h5", virtual=virtual)
    with h5py.File(tmp_path / "python.h5") as file:
        assert file["in/a"].is_virtual == virtual
        _same(file["in/a"][...], array)
    if virtual:
        chunks = [
            sorted(one.name for one in tmp_path.glob(f"{name}.h5.chunks/*")) for name in ("python", "command")
        ]
        assert chunks[0] == chunks[1] and len(chunks[0]) == 8 * 6
        return
    assert (tmp_path / "python.h5").read_bytes() == (tmp_path / "command.h5").read_bytes()
    uuid = tensors.put_hdf5(tmp_path / "python.h5", "b")
    assert (tensors["b"].uuid, tensors["b"].chunks) == (uuid, (4, 7, 9))
    _same(tensors.get("b"), array)
    assert {name: tensors["b"].attrs[name] for name in _ATTRIBUTES} == _ATTRIBUTES
    unnamed = tensors.put_hdf5(tmp_path / "python.h5", dataset="in/a", chunks=(30, 7, 50))
    assert (tensors[unnamed].name, tensors[unnamed].chunks) == (None, (30, 7, 50))
    with pytest.raises(esker.NotFound, match="nothing"):
        tensors.put_hdf5(tmp_path / "python.h5", "c", "nothing")
    with pytest.raises(OSError):
        tensors["b"].to_hdf5(tmp_path / "missing" / "a.h5")
    assert "c" not in tensors


def _under_run(tensors, *program):
    """Standard output of a program that sees the tensors of a store as files below /esker."""
    command = [sys.executable, "-m", "esker", "run", tensors.name, "--", *map(str, program)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


_IN_PLACE = """
import multiprocessing, os, pathlib, sys
import h5py, numpy

expected = numpy.load(sys.argv[1])
assert sorted(os.listdir("/esker")) == ["boxes.h5", "in", "rows.h5"], os.listdir("/esker")
assert os.listdir("/esker/in/deep") == ["a.h5"]

def row(at):
    return file["boxes"][at].sum()

for path, name in [("rows.h5", "rows"), ("boxes.h5", "boxes"), ("in/deep/a.h5", "in/deep/a")]:
    file = h5py.File(f"/esker/{path}")
    dataset = file[name]
    assert dataset.attrs["units"] == "K"
    assert (dataset[...] == expected).all() and (dataset[3:40:7, 5:, ::3] == expected[3:40:7, 5:, ::3]).all()
    assert os.stat(f"/esker/{path}").st_size == len(pathlib.Path(f"/esker/{path}").read_bytes())
    assert h5py.is_hdf5(f"/esker/{path}")
file = h5py.File("/esker/boxes.h5")
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(row, range(len(expected))) == [one.sum() for one in expected]
for change in [lambda: h5py.File("/esker/rows.h5", "a"), lambda: h5py.File("/esker/new.h5", "w")]:
    try:
        change()
    except OSError:
        continue
    sys.exit("a file was changed")
print("all read")
"""


def test_h5py_reads_tensors_in_place(tensors, tmp_path):
    array = _filled((50, 40, 30), "<f8")
    for name, chunks in [("rows", None), ("boxes", (16, 7, 30)), ("in/deep/a", (50, 40, 1))]:
        tensors.put(array, name, {"units": "K"}, chunks=chunks)
    numpy.save(tmp_path / "a.npy", array)
    assert _under_run(tensors, sys.executable, "-c", _IN_PLACE, tmp_path / "a.npy") == "all read\n"


_FORKED = """
import os, subprocess, sys

file = os.open("/esker/a.h5", os.O_RDONLY)
old = os.pread(file, 1 << 20, 0)
subprocess.run([sys.executable, "-c", sys.argv[1], sys.argv[2]], check=True)
child = os.fork()
if child == 0:
    os._exit(0 if os.pread(file, 1 << 20, 0) == old else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the child reads something else"
assert os.pread(file, 1 << 20, 0) == old
print(len(old))
"""
_REPLACE = """
import sys
import esker

esker.TensorStore(sys.argv[1]).put([7] * 600, "a")
"""


def test_a_child_reads_a_replaced_tensor_that_its_parent_opened(tensors):
    tensors.put(_filled((60, 40), "<f8"), "a")
    size = int(_under_run(tensors, sys.executable, "-c", _FORKED, _REPLACE, tensors.name))
    assert size > 60 * 40 * 8
    assert (tensors["a"][...] == 7).all()


def test_a_file_in_place_has_the_bytes_of_an_export(tensors, tmp_path):
    tensors.put(_filled((700, 500), "<c16"), "a", _ATTRIBUTES, chunks=(64, 64))
    tensors["a"].to_hdf5(tmp_path / "a.h5")
    _under_run(tensors, "cmp", "/esker/a.h5", tmp_path / "a.h5")
    # Also through a shell whose children inherit the open file.
    script = 'exec 3</esker/a.h5; head -c 5000 <&3 >"$0"; cat <&3 >>"$0"; cmp "$0" "$1"'
    _under_run(tensors, "sh", "-c", script, tmp_path / "copy.h5", tmp_path / "a.h5")


def test_h5dump_reads_in_place(tensors):
    tensors.put(numpy.arange(12.0).reshape(3, 4), "a", {"units": "K"}, chunks=(2, 3))
    if not shutil.which("h5dump"):
        pytest.skip("h5dump is not installed")
    dumped = _under_run(tensors, "h5dump", "/esker/a.h5")
    assert '"K"' in dumped and "(2,0): 8, 9, 10, 11" in dumped


_NETCDF = """
import sys
import netCDF4, numpy

expected = numpy.load(sys.argv[1])
for name in ("rows", "boxes"):
    with netCDF4.Dataset(f"/esker/{name}.h5") as file:
        found = file[name]
        assert found.getncattr("units") == "K" and found.dtype == expected.dtype
        assert (found[...] == expected).all() and (found[3:40:7, ::3] == expected[3:40:7, ::3]).all()
try:
    netCDF4.Dataset("/esker/rows.h5", "a")
except OSError:
    print("all read")
"""


def test_netcdf_reads_tensors_in_place(tensors, tmp_path):
    pytest.importorskip("netCDF4")
    array = _filled((50, 40), "<f8")
    for name, chunks in [("rows", None), ("boxes", (16, 7))]:
        tensors.put(array, name, {"units": "K"}, chunks=chunks)
    numpy.save(tmp_path / "a.npy", array)
    assert _under_run(tensors, sys.executable, "-c", _NETCDF, tmp_path / "a.npy") == "all read\n"


def test_tensors_that_hdf5_cannot_represent_are_refused(tensors, tmp_path):
    overlapping = {"names": ["whole", "low"], "formats": ["<u4", "<u2"], "offsets": [0, 0]}
    for array, word in [
        (numpy.zeros(2, overlapping), "low"),
        (numpy.zeros(2, "S0,i4"), "0 bytes"),
    ]:
        tensors.put(array, "a")
        assert word in _refusal("export", tensors.name, "a", tmp_path / "a.h5")
    tensors.put([1], "a", {"long": "x" * 100_000, "list": list(range(9000))})
    assert '"list"' in _refusal("export", tensors.name, "a", tmp_path / "a.h5")


def _import(tensors, path, name="a", *options):
    """Import a file with the command; return the tensor."""
    _run("import", tensors.name, path, "--name", name, *options)
    return tensors.get(name)


@pytest.mark.parametrize("version", ["earliest", "latest"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": (30, 20)},
        {"chunks": (30, 20), "compression": "gzip", "shuffle": True, "fletcher32": True},
        {"chunks": (100, 70), "compression": "gzip"},
        {"chunks": (30, 20), "maxshape": (None, 70)},
        {"chunks": (30, 20), "maxshape": (None, None), "compression": "gzip"},
        {"chunks": (1, 70), "scaleoffset": 0},
    ],
    ids=str,
)
def test_files_of_h5py_are_imported(tensors, tmp_path, version, options):
    array, path = _filled((100, 70), "<i4"), tmp_path / "a.h5"
    with h5py.File(path, "w", libver=version) as file:
        group = file.create_group("some/group")
        dataset = group.create_dataset("x", data=array, **options)
        dataset.attrs.update(
            {"units": "K", "numbers": numpy.arange(3, dtype=">i2"), "fixed": numpy.bytes_("ab")}
        )
        dataset.attrs["reference"] = dataset.ref
    left_out = _run("import", tensors.name, path, "--name", "a")["left_out"]
    assert left_out == ["reference"]
    _same(tensors.get("a"), array)
    assert tensors["a"].attrs == {"units": "K", "numbers": [0, 1, 2], "fixed": "ab"}
    if "chunks" in options:
        assert tensors["a"].chunks == options["chunks"]
    _same(_import(tensors, f"{path}:/some/group/x", "b", "--chunks", "7,7"), array)
    assert tensors["b"].chunks == (7, 7)


_COMPOUND = numpy.dtype([("name", "S4"), ("size", "<f4", (2,)), ("in", [("x", ">i2"), ("ok", "?")])])

_VALUES = {
    # By name: the value in the file, the value that is kept, and a part of the remark, if any.
    "half": (numpy.float16(0.1), float(numpy.float16(0.1)), None),
    "halves": (numpy.array([1, numpy.inf, -0.5], ">f2"), [1.0, numpy.inf, -0.5], None),
    "exact": (numpy.longdouble(0.5), 0.5, None),
    "rounded": (numpy.longdouble(1) / 10, 0.1, "nearest number of 8 bytes"),
    "complex": (1 + 2j, [1.0, 2.0], "real and the imaginary part"),
    "complexes": (numpy.array([1j, 2], "c8"), [[0.0, 1.0], [2.0, 0.0]], "real and the imaginary part"),
    "compound": (
        numpy.array(("ab", (1, 2.5), (-3, True)), _COMPOUND),
        '{"name": "ab", "size": [1.0, 2.5], "in": {"x": -3, "ok": true}}',
        "text in JSON",
    ),
}


def _with_attributes(path):
    """Write a file whose dataset has attributes of all kinds."""
    with h5py.File(path, "w") as file:
        file["x"] = [1]
        attributes = file["x"].attrs
        for name, (value, _, _) in _VALUES.items():
            attributes[name] = value
        attributes.create("pairs", numpy.zeros((2, 3), "i4"), (2, 3), "(3,)i4")
        attributes["reference"] = file["x"].ref
        lists = numpy.empty(1, object)
        lists[0] = numpy.arange(2, dtype="i4")
        attributes.create("lists", lists, dtype=h5py.vlen_dtype("i4"))
        attributes["null"] = h5py.Empty("f4")
        bfloat16 = h5py.h5t.IEEE_F16LE.copy()
        bfloat16.set_fields(15, 7, 8, 0, 7)
        bfloat16.set_ebias(127)
        h5py.h5a.create(file["x"].id, b"bfloat16", bfloat16, h5py.h5s.create(h5py.h5s.SCALAR))


_LEFT_OUT = {
    "reference": "refers to an object",
    "lists": "variable length",
    "null": "no value",
    "bfloat16": "numpy does not know",
}


def test_each_attribute_is_kept_or_named(tensors, tmp_path):
    _with_attributes(tmp_path / "a.h5")
    answer = _run("import", tensors.name, tmp_path / "a.h5", "--name", "a")
    assert sorted(answer["left_out"]) == sorted(_LEFT_OUT)
    kept = tensors["a"].attrs
    assert kept.pop("pairs") == [[0, 0, 0], [0, 0, 0]]
    assert kept == {name: value for name, (_, value, _) in _VALUES.items()}
    said = dict(remark.split('"')[1:3] for remark in answer["remarks"])
    expected = {name: what for name, (_, _, what) in _VALUES.items() if what} | _LEFT_OUT
    assert said.keys() == expected.keys()
    assert all(word in said[name] for name, word in expected.items()), said
    with pytest.warns(UserWarning) as warnings:
        tensors.put_hdf5(tmp_path / "a.h5", "b")
    assert sorted(str(one.message).split('"')[1] for one in warnings) == sorted(expected)
    assert tensors["b"].attrs == tensors["a"].attrs


def test_elements_that_were_never_written_have_the_fill_value(tensors, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("chunked", (100, 70), "f4", chunks=(30, 20), fillvalue=7)[35:40, 3] = 1
        file.create_dataset("zero", (100, 70), "f4", chunks=(30, 20))
        file.create_dataset("late", (10, 7), "f4", fillvalue=3)
        expected = {name: dataset[...] for name, dataset in file.items()}
        file.create_dataset("unwritten", (10, 7), "f4", chunks=(5, 7))
        expected["unwritten"] = file["unwritten"][...]
    for name, array in expected.items():
        _same(_import(tensors, f"{path}:{name}"), array)
        # A check expects no chunks that the file lacks.
        assert tensors.check(data=True) == []


def test_chunks_that_are_too_large_for_the_store_have_the_fill_value(tensors, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (20, 1 << 20), "f8", chunks=(10, 1 << 20), fillvalue=3)[12, 5] = 1
    found = _import(tensors, path)
    assert (found[12, 5], found.sum()) == (1, 3 * found.size - 2)


def test_a_dataset_with_several_names_is_the_only_one(tensors, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["group/x"] = [1, 2]
        file["group/y"] = file["group/x"]
        file["group/up"] = file["/"]
    assert _import(tensors, path).tolist() == [1, 2]


def test_files_of_netcdf_are_imported(tensors, tmp_path):
    netcdf = pytest.importorskip("netCDF4")
    path, array = tmp_path / "a.nc", _filled((6, 5), "f4")
    with netcdf.Dataset(path, "w") as file:
        for name, length in [("x", None), ("y", 5)]:
            file.createDimension(name, length)
        variable = file.createVariable("t", "f4", ("x", "y"), zlib=True)
        variable.setncatts({"units": "K", "scale": 0.5})
        variable[:] = array
    _same(_import(tensors, f"{path}:t"), array)
    assert tensors["a"].attrs["units"] == "K"


def test_unsupported_datasets_are_refused(tensors, tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        file["x"] = [1]
        file["texts"] = ["a", "b"]
        file["null"] = h5py.Empty("f8")
        file.create_dataset("external", (1,), "i8", external=[(str(tmp_path / "raw"), 0, 8)])
    layout = h5py.VirtualLayout((1,), "i8")
    layout[:] = h5py.VirtualSource(path, "x", (1,))
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file.create_virtual_dataset("virtual", layout)
    bfloat16 = h5py.h5t.IEEE_F16LE.copy()
    bfloat16.set_fields(15, 7, 8, 0, 7)
    bfloat16.set_ebias(127)
    with h5py.File(tmp_path / "c.h5", "w") as file:
        h5py.h5d.create(file.id, b"bfloat16", bfloat16, h5py.h5s.create_simple((3,)))
    for what, word in [
        ("a.h5", "/external, /null, /texts, /x"),
        ("a.h5:y", "y"),
        ("a.h5:texts", "fixed size"),
        ("b.h5:virtual", "h5repack"),
        ("a.h5:external", "other files"),
        ("a.h5:null", "no elements"),
        ("c.h5:bfloat16", "bfloat16"),
        ("missing.h5", "missing.h5"),
    ]:
        assert word in _refusal("import", tensors.name, tmp_path / what), what
    (tmp_path / "text").write_text("not an HDF5 file")
    assert "not an HDF5 file" in _refusal("import", tensors.name, tmp_path / "text")
    assert tensors.list() == []
