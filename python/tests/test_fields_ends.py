"""Fields that were archived and not flushed, and invalid values of keys."""

import datetime
import gc
import os
import subprocess
import sys
import warnings

import pytest
from test_fields import KEY

import esker


def test_closing_with_unflushed_fields_warns(shared):
    store = esker.FieldStore(shared.name)
    store.archive(b"lost", KEY)
    with pytest.warns(ResourceWarning, match="1 fields of 4 bytes .* never flushed"):
        store.close()
    store = esker.FieldStore(shared.name)
    store.archive(b"lost", KEY)
    with pytest.warns(ResourceWarning, match="never flushed"):
        del store
        gc.collect()
    with warnings.catch_warnings(), esker.FieldStore(shared.name) as store:
        warnings.simplefilter("error")
        store.archive(b"meant so", KEY)
        store.discard()
        store.close()
    assert len(shared.list()) == 0


def test_a_store_may_flush_when_it_is_closed(shared):
    store = esker.FieldStore(shared.name, flush_on_close=True)
    store.archive(b"kept", KEY)
    store.close()
    assert shared.retrieve(KEY).read() == b"kept"
    with pytest.raises(RuntimeError), esker.FieldStore(shared.name, flush_on_close=True) as store:
        store.archive(b"lost", KEY | {"step": 1})
        raise RuntimeError
    assert len(shared.list()) == 1


def test_a_store_may_flush_at_the_end_of_the_interpreter(shared):
    code = f"import esker; store = esker.FieldStore({shared.name!r}, flush_on_close=FLUSH); "
    code += f"store.archive(b'end', {KEY!r})"
    for flush, said, there in ((False, "never flushed", 0), (True, "", 1)):
        command = [sys.executable, "-c", code.replace("FLUSH", str(flush))]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, env=os.environ)
        assert ended.returncode == 0 and said in ended.stderr and len(shared.list()) == there
        assert said or not ended.stderr


@pytest.mark.parametrize("value", [None, True, b"od", [1], {"a": 1}, object(), "a/b", "a,b"])
def test_invalid_values_are_rejected(store, value):
    with pytest.raises((TypeError, ValueError), match="class"):
        store.archive(b"x", KEY | {"class": value})
    if not isinstance(value, (list, str)):
        with pytest.raises(TypeError, match="class="):
            store.list({"class": [value]})


def test_numbers_and_dates_are_values(store):
    numpy = pytest.importorskip("numpy")
    days = [datetime.date(2024, 6, 10), numpy.datetime64("2024-06-10"), 20240610, numpy.int32(20240610)]
    for step, date in enumerate(days):
        store.archive(b"x", KEY | {"date": date, "step": numpy.int64(step), "param": numpy.str_("2t")})
    store.flush()
    assert store.axes()["date"] == ["20240610"] and len(store.list()) == 4
    assert len(store.list({"step": numpy.arange(2)})) == 2


def test_with_expect_any_fields_may_be_missing(store):
    store.archive(b"x", KEY)
    store.flush()
    wanted = KEY | {"step": [0, 6]}
    with pytest.raises(KeyError):
        store.retrieve(wanted)
    assert len(store.retrieve(wanted | {"expect": "any"})) == 1
