"""The texts that name an object."""

import esker


def test_reprs_name_the_object(container):
    label, pool = container.label, container.pool.name
    assert repr(container) == f'<esker.Container "{label}" in "{pool}">'
    kv = container.kv("index")
    assert repr(kv) == repr(kv.at(None)) == f'<esker.Kv "index" in "{label}">'
    array = container.create_array("a", cell_size=8, chunk_size=4)
    expected = f'<esker.Array "a" in "{label}" of 8-byte cells, 4 per chunk>'
    assert repr(array) == repr(container.array("a")) == expected


def test_reprs_of_files_name_the_container_and_the_path(posix):
    files = esker.FileSystem(posix)
    assert repr(files) == f'<esker.FileSystem in "{posix.label}">'
    assert repr(esker.FileSystem(posix, True)) == f'<esker.FileSystem in "{posix.label}", read-only>'
    with files.open_file("/a", "w") as file:
        assert repr(file) == f'<esker.File "/a" of {files!r}>'


def test_reprs_of_fields_name_the_store(store):
    assert repr(store.list({})) == f'<esker.Fields of "{store.name}": 0 of 0 bytes>'
