"""The asyncio variants."""

import asyncio
import inspect

import esker
from esker import _aio


def test_the_event_loop_continues(container):
    async def main():
        kv = container.kv("index")
        await asyncio.gather(*(kv.aput(f"{number}", b"x" * number) for number in range(50)))
        values = await asyncio.gather(*(kv.aget(f"{number}") for number in range(50)))
        assert [len(value) for value in values] == list(range(50))
        cells = await container.acreate_array("cells")
        await cells.awrite(0, b"abc")
        assert await cells.aread(0, 3) == b"abc"
        answer = await container.atransact(lambda tx: kv.at(tx).put("n", b"1") or "done")
        assert answer == "done" and await kv.asize("n") == 1

    asyncio.run(main())


def test_every_variant_has_a_name_and_a_docstring():
    for cls, names in _aio._WAITING.items():
        for name in names:
            variant = getattr(cls, f"a{name}")
            assert inspect.iscoroutinefunction(variant) and name in variant.__doc__


# Public methods that do not wait for the medium. The variant of `File.sync` would be `async`, a keyword.
INSTANT = {
    esker.Pool: {"create", "list", "destroy"},
    esker.Container: {"at", "transaction"},
    esker.Kv: {"at", "items", "keys", "values", "pop", "popitem", "setdefault", "update"},
    esker.Array: {"at"},
    esker.File: {"sync"},
    esker.FileSystem: {"open"},
    esker.FieldStore: {"watch"},
}


def test_every_method_that_waits_has_a_variant():
    for cls in _aio._WAITING:
        public = {name for name in dir(cls) if name[0] != "_" and callable(getattr(cls, name))}
        lacking = {name for name in public - INSTANT.get(cls, set()) if f"a{name}" not in public}
        variants = {f"a{name}" for name in public}
        assert lacking <= variants, cls


def test_everything_public_has_a_docstring():
    for name in esker.__all__:
        thing = getattr(esker, name)
        if isinstance(thing, str):
            continue
        assert thing.__doc__, name
        for member, value in getattr(thing, "__dict__", {}).items():
            if not member.startswith("_") and (callable(value) or inspect.isdatadescriptor(value)):
                assert value.__doc__, f"{name}.{member}"
