"""Calls on many items of one pool."""

from concurrent.futures import ThreadPoolExecutor

# Number of calls under way at a time, as in DAOS's own bulk operations.
IN_FLIGHT = 16
# Pools in memory answer within microseconds: handing a call to a thread would take longer than the call.
_AT_ONCE = ("esker:", "memory:")


def each(pool, work, items):
    """Call `work` with each item and return the results in order, in parallel on pools not in memory."""
    items = list(items)
    if len(items) < 2 or pool.name.startswith(_AT_ONCE):
        return [work(item) for item in items]
    with ThreadPoolExecutor(min(IN_FLIGHT, len(items))) as threads:
        return list(threads.map(work, items))
