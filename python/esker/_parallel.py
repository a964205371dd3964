"""Calls on many items of one pool."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from ._esker import Pool

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

# Number of calls in progress at a time, as in DAOS's own bulk operations.
IN_FLIGHT = 16
# Pools of this machine answer within microseconds: passing a call to a thread would take longer.
_AT_ONCE = ("esker:", "memory:")
# Most cached names of pools. A label does not reveal the kind of a pool, and asking for it takes a while.
_KNOWN_MAX = 1000
_known: dict[str, bool] = {}


def _answers_at_once(pool: Pool) -> bool:
    """True for a pool of this machine."""
    found = _known.get(pool.name)
    if found is None:
        if len(_known) >= _KNOWN_MAX:
            _known.clear()
        found = _known[pool.name] = pool.info()["url"].startswith(_AT_ONCE)
    return found


def each(pool: Pool, work: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Call `work` with each item, on remote pools in parallel. Return the results in order."""
    items = list(items)
    if len(items) < 2 or _answers_at_once(pool):
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(IN_FLIGHT, len(items))) as threads:
        return list(threads.map(work, items))
