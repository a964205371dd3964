"""LMDB: one process writes, others read through their mappings of the file, without locks."""

import subprocess
import sys

from lib import need, run_tests

lmdb = need("lmdb")

READER = """
import lmdb, sys
with lmdb.open(sys.argv[1], create=False) as env:
    for line in sys.stdin:
        with env.begin() as view:
            print(view.stat()["entries"], view.get(b"k000").decode(), flush=True)
    with env.begin(write=True) as change:
        change.put(b"by the reader", b"1")
"""


def put(env, count, value):
    with env.begin(write=True) as change:
        for number in range(count):
            change.put(b"k%03d" % number, value)


def two_processes(**options):
    with lmdb.open("db", map_size=1 << 24, **options) as env:
        put(env, 10, b"0")
        command = [sys.executable, "-c", READER, "db"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
            for turn in range(1, 6):
                put(env, 10 + turn, b"%d" % turn)
                reader.stdin.write("\n")
                reader.stdin.flush()
                assert reader.stdout.readline() == f"{10 + turn} {turn}\n"
            reader.stdin.close()
            assert reader.wait() == 0
        with env.begin() as view:
            assert view.get(b"by the reader") == b"1"
        put(env, 20, b"last")
    with lmdb.open("db") as env, env.begin() as view:
        assert view.stat()["entries"] == 21
        assert view.get(b"k019") == b"last"


def test_two_processes(_outside):
    two_processes()


def test_two_processes_that_write_to_their_mappings(_outside):
    two_processes(writemap=True)


run_tests(globals())
