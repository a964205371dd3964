"""Writers that are killed at random moments. `ESKER_SEED` replays a run, `ESKER_KILLS` makes it longer."""

import os
import random
import signal
import subprocess
import sys

# How many writers a test kills.
KILLS = int(os.environ.get("ESKER_KILLS", "20"))
# Most turns of an idle loop between the last byte that is awaited from a writer and its death.
TURNS = 20_000
# Bytes of pages that the indexes of a pool keep once they had entries.
ENTRIES_SLACK = 256 << 10


def moments():
    """Draws of the moments at which writers are killed; prints the seed that replays them."""
    seed = int(os.environ.get("ESKER_SEED", "1"))
    print(f"ESKER_SEED={seed} ESKER_KILLS={KILLS}")
    return random.Random(seed)


def killed(work, draws, enough=range(1, 6)):
    """Run `work(pipe)`, which writes a byte for each step and never ends, in a child; kill it at a random
    moment.

    First await a number of bytes drawn from `enough`. Return all bytes that the child wrote.
    """
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            work(theirs)
        finally:
            os._exit(1)
    os.close(theirs)
    told = b"".join(os.read(ours, 1) for _ in range(draws.choice(enough)))
    for _ in range(draws.randrange(TURNS)):
        pass
    os.kill(pid, signal.SIGKILL)
    assert os.WIFSIGNALED(os.waitpid(pid, 0)[1]), "the writer ended by itself"
    while more := os.read(ours, 100):
        told += more
    os.close(ours)
    return told


def room(pool):
    """Bytes of a native pool that are free for data, and for entries of the index. Checks the pool first.

    For a pool over nodes both are 0: an engine takes a moment to notice that a client has died.
    """
    if pool.name.startswith("nodes:"):
        return 0, 0
    command = [sys.executable, "-m", "esker", "pool", "check", pool.name]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    info = pool.info()
    # A block that moves from the data to the index changes neither sum.
    return info["data_free_bytes"] + info["index_total_bytes"], info["data_free_bytes"] + info[
        "index_free_bytes"
    ]


def expect_room(pool, before):
    """Fail if a pool has less room than before."""
    after = room(pool)
    assert after[0] >= before[0], f"{before[0] - after[0]} bytes of data are lost"
    assert after[1] >= before[1] - ENTRIES_SLACK, f"{before[1] - after[1]} bytes of the index are lost"
