"""Key-Values are mutable mappings."""

from collections.abc import MutableMapping

import pytest

import esker


def test_a_key_value_is_a_mapping(container):
    kv = container.kv("index")
    assert isinstance(kv, MutableMapping)
    kv["a"], kv[b"b"] = b"1", b"22"
    assert kv["a"] == b"1" and kv.get("b") == b"22" and kv.get("c") is None and kv.get("c", 7) == 7
    assert "a" in kv and "c" not in kv
    assert sorted(kv) == [b"a", b"b"] and len(kv) == 2
    assert dict(kv.items()) == {b"a": b"1", b"b": b"22"}
    assert sorted(kv.keys()) == [b"a", b"b"] and sorted(kv.values()) == [b"1", b"22"]
    assert kv.pop("a") == b"1" and kv.setdefault("a", b"3") == b"3"
    kv.update({"d": b"4"}, e=b"5")
    del kv["d"]
    assert len(kv) == 3
    kv.clear()
    assert not kv and list(kv.items()) == []


def test_a_missing_key_is_named(container):
    kv = container.kv("index")
    for ask in (lambda: kv["gone"], lambda: kv.pop("gone"), lambda: kv.__delitem__("gone")):
        with pytest.raises(KeyError) as caught:
            ask()
        assert isinstance(caught.value, esker.NotFound)
    kv.discard("gone")
    with pytest.raises(esker.NotFound, match="'gone'"):
        kv["gone"]


def test_conditions(container):
    kv = container.kv("index")
    with pytest.raises(esker.NotFound):
        kv.put("k", b"1", "update")
    kv.put("k", b"1", "insert")
    with pytest.raises(FileExistsError):
        kv.put("k", b"2", condition="insert")
    kv.put("k", b"2", condition="update")
    assert kv["k"] == b"2"
    with pytest.raises(ValueError, match="insert"):
        kv.put("k", b"2", condition="maybe")


@pytest.mark.parametrize("size", [0, 1, 1024, 1025, 100_000, 4 << 20])
def test_values_of_every_size(container, size):
    kv = container.kv("values")
    value = bytes(range(256)) * (size // 256) + bytes(size % 256)
    kv["v"] = value
    assert kv["v"] == value and kv.size("v") == size
    place = bytearray(b"x" * (size + 3))
    assert kv.get_into("v", place) == size
    assert place == value + b"xxx"
    if size:
        with pytest.raises(esker.errors.RecordTooBig) as caught:
            kv.get_into("v", bytearray(size - 1))
        assert caught.value.needed == size


def test_too_large_keys_and_values_are_rejected(container):
    kv = container.kv("values")
    with pytest.raises(esker.errors.RecordTooBig):
        kv["v"] = bytes((4 << 20) + 1)
    with pytest.raises(esker.errors.KeyTooBig):
        kv["k" * ((512 << 10) + 1)] = b""
    with pytest.raises(esker.Invalid):
        kv[""] = b""


def test_integer_keys(container):
    kv = container.kv("numbers", keys="integer")
    for number in (3, 1, 2**64 - 1, 0):
        kv[number] = str(number).encode()
    assert sorted(kv) == [0, 1, 3, 2**64 - 1]
    assert dict(kv.items())[3] == b"3"
    for wrong in ("3", -1, 2**64, 1.5):
        with pytest.raises((TypeError, OverflowError)):
            kv[wrong]
    with pytest.raises(TypeError, match="integer"):
        container.kv("text")[3]


def test_integers_of_numpy_are_numbers(container):
    numpy = pytest.importorskip("numpy")
    kv = container.kv("numbers", keys="integer")
    kv[7] = b"seven"
    assert kv[numpy.int64(7)] == kv[numpy.uint8(7)] == b"seven"
    with pytest.raises(TypeError, match="2\\^64-1"):
        kv[numpy.int64(-1)]
    texts = container.kv("texts")
    texts[b"ab"] = b"1"
    assert texts[numpy.frombuffer(b"ab", "u1")] == texts[bytearray(b"ab")] == b"1"
    with pytest.raises(TypeError, match="bytes"):
        texts[numpy.int64(7)]


def test_listing_in_batches(container):
    kv = container.kv("many")
    expected = {f"key {number}".encode(): bytes([number % 256]) * 9 for number in range(3000)}
    kv.update(expected)
    assert len(kv) == 3000 and set(kv) == set(expected)
    assert dict(kv.items()) == expected


def test_a_listing_survives_changes(container):
    kv = container.kv("many")
    kv.update({f"{number:04}": b"x" for number in range(2000)})
    seen = []
    for key, _ in kv.items():
        seen.append(key)
        kv.discard(key)
    assert len(seen) == len(set(seen)) == 2000 and len(kv) == 0


def test_names_refer_to_objects(container):
    kv = container.kv("index")
    assert container.kv(kv.oid).oid == kv.oid == container.kv("index").oid
    assert container.kv("other").oid != kv.oid
    numbered = container.kv(f"0.{container.allocate_oids()}", oclass="S1")
    numbered["a"] = b"1"
    assert numbered.oid in container.objects()
    with pytest.raises(ValueError, match="not an object class"):
        container.kv("index", oclass="S1000000")


def test_a_name_is_found_with_any_class(container):
    container.kv("index", oclass="S1")["a"] = b"1"
    assert container.kv("index")["a"] == b"1"
    container.create_array("field", oclass="S1").write(0, b"abc")
    assert container.array("field").read(0, 3) == b"abc"
    assert container.create_array("field", exist_ok=True).read(0, 3) == b"abc"
    assert len(container.objects()) == 2
