"""The tables that notebooks show."""

import html.parser

import pytest

import esker
from esker import _html

KEY = {"class": "rd", "expver": "0001", "stream": "oper", "date": "20240610", "time": "0000", "domain": "g"}
KEY |= {"type": "fc", "levtype": "sfc", "param": "167"}


class Parsed(html.parser.HTMLParser):
    """Elements and text of a table, all of whose elements must be closed."""

    def __init__(self, source):
        super().__init__(convert_charrefs=True)
        self.open, self.tags, self.texts = [], [], []
        self.feed(source)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def shown(thing):
    """The parsed table that a notebook shows for an object."""
    return Parsed(thing._repr_html_())


def test_pools_and_containers_are_tables_of_what_they_hold(pool, container):
    texts = shown(pool).texts
    assert pool.name in texts and container.label in texts and container.uuid in texts
    assert container.label in shown(container).texts and pool.name in shown(container).texts


def test_names_and_values_of_users_are_text_and_not_markup(container):
    kv, evil = container.kv("index"), "<img src=x onerror='alert(1)'>"
    kv[evil] = b"123"
    container.attributes[evil] = b"</table>\xff&"
    for thing in (kv, container):
        parsed = shown(thing)
        assert "img" not in parsed.tags and parsed.tags.count("table") <= 2
        assert any(evil in text for text in parsed.texts)
    assert "</table>\\xff&" in shown(container).texts
    assert "3 bytes" in shown(kv).texts


def test_long_tables_are_cut_and_say_so(container):
    kv = container.kv("index")
    for number in range(_html.ROWS_MAX + 1):
        kv[str(number)] = b""
    rows = shown(kv)
    assert _html.MORE in rows.texts and rows.texts.count("0 bytes") == _html.ROWS_MAX
    del kv["0"]
    assert _html.MORE not in shown(kv).texts
    assert (
        _html.some(range(20)) == "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, \N{HORIZONTAL ELLIPSIS}"
        and _html.some([1]) == "1"
    )


def test_arrays_show_their_shape(container):
    array = container.create_array("a", cell_size=8, chunk_size=4)
    array.write(0, bytes(80))
    texts = shown(array).texts
    assert texts[texts.index("cells") + 1] == "10" and "8 bytes" in texts


def test_file_systems_show_their_root(posix):
    files = esker.FileSystem(posix)
    files.mkdir("/<b>")
    with files.open("/a", "wb") as file:
        file.write(bytes(2048))
    parsed = shown(files)
    assert "<b>" in parsed.texts and "2.00 KiB" in parsed.texts and "b" not in parsed.tags


def test_fields_and_axes_show_keys(store):
    for step in range(_html.ROWS_MAX + 3):
        store.archive(b"x" * 2048, {**KEY, "step": str(step)})
    store.flush()
    fields = store.list({})
    texts = shown(fields).texts
    assert (
        "fields" in texts
        and "15" in texts
        and "30.00 KiB" in texts
        and _html.MORE in texts
        and "param" in texts
    )
    assert "167" in shown(fields[0]).texts and "2.00 KiB" in shown(fields[0]).texts
    axes = store.axes({})
    assert isinstance(axes, dict) and axes["param"] == ["167"]
    assert "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, \N{HORIZONTAL ELLIPSIS}" in shown(axes).texts
    assert store.name in shown(store).texts and "167" in shown(store).texts
    assert shown(store.list({})[:0]).texts == ["esker.Fields", " ", "fields", "0", "size", "0 bytes"]


def test_tensors_show_their_shape(native):
    numpy = pytest.importorskip("numpy")
    with esker.TensorStore(f"memory:{native.label}/tensors") as tensors:
        tensors.put(numpy.zeros((5, 6), "f4"), "<t>", {"units": "<K>"}, chunks=(2, 6))
        texts = shown(tensors["<t>"]).texts
        assert "<t>" in texts and "float32" in texts and "3 of (2, 6)" in texts and "<K>" in texts
        assert "<t>" in shown(tensors).texts and "(5, 6)" in shown(tensors).texts


def test_an_object_that_is_closed_falls_back_to_its_repr(native_url):
    with esker.Pool(native_url) as pool:
        pass
    assert pool._repr_html_() is None and repr(pool).startswith("Pool(")


def test_sizes_are_in_the_unit_that_suits_them():
    assert [_html.size(count) for count in (0, 1023, 1024, 5 << 30)] == [
        "0 bytes",
        "1023 bytes",
        "1.00 KiB",
        "5.00 GiB",
    ]
