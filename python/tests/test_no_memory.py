"""Calls beyond a limit of memory: an exception, never the end of the process."""

import pytest
from test_processes import run

MIB = 1 << 20

LIMITED = """
import re, resource, sys
import esker

container = esker.Pool(sys.argv[1]).container(sys.argv[2])
cells, kv = container.array("cells"), container.kv("index")
cells.read(0, 100)
given = bytes(4 << 20)
limit, used = {"AS": (resource.RLIMIT_AS, "VmSize"), "DATA": (resource.RLIMIT_DATA, "VmData")}[sys.argv[3]]
with open("/proc/self/status") as status:
    kilobytes = int(re.search(used + r":\\s+(\\d+)", status.read()).group(1))
resource.setrlimit(limit, ((kilobytes << 10) + (2 << 20),) * 2)
try:
    eval(sys.argv[4])
except MemoryError:
    print("refused")
cells.read(0, 100)
"""


@pytest.mark.parametrize("limit", ["AS", "DATA"])
@pytest.mark.parametrize(
    "call",
    [
        "cells.read(0, 16 << 20)",
        "cells.read(0, 2**40)",
        "cells.view(0, 16 << 20)",
        "cells.view(0, 2**40)",
        "kv['large']",
        "esker.View(given)",
        "container.transact(lambda tx: kv.at(tx).put(b'key', given))",
    ],
)
def test_bytes_beyond_the_limit_are_a_memory_error(native, call, limit):
    cells = native.create_array("cells", 1, MIB)
    cells.write(0, bytes(16 * MIB))
    native.kv("index")["large"] = bytes(4 * MIB)
    assert run(LIMITED, native.pool.name, native.uuid, limit, call) == "refused\n"
