"""A pool, a server on loopback, and a client with a key.

The tests run on a pool of this machine. Those of objects run also on it as a pool of a DAOS system, whose library is
Esker's own with DAOS's rules, and on a pool of files; with ESKER_ALL_SUITES, all tests do."""

import itertools
import json
import os
import pathlib
import subprocess
import tempfile

import boto3
import pytest
from botocore.config import Config

ESKER = os.environ["ESKER"]
NUMBERS = itertools.count()
POOLS = ["tank", "daos:tank", "files"]
# Modules whose results depend on the pool. The others test the server and its clients.
OF_OBJECTS = {"test_killed", "test_listings", "test_objects", "test_uploads"}
DAOS = {
    "ESKER_LIBDAOS": os.environ.get("LIBDAOS") or str(pathlib.Path(ESKER).with_name("libdaos.so")),
    "ESKER_LIBDAOS_OWN": "allow",
    "ESKER_DAOS_STRICT": "1",
}


class Door:
    """A pool with a server, which tests may kill and start again. A `with` statement kills all servers that it has started."""

    def __init__(self, home, pool="tank"):
        """Create the pool, and a key for everything and one for reading."""
        self.home, self.pool, self.process, self.url = home, pool, None, None
        self.processes = []
        self.environment = {**os.environ, "ESKER_POOLS": str(home), **DAOS}
        if pool == "files":
            self.pool = "tank"
            self.esker("pool", "create", f"posix:{home}/tank")
        else:
            self.esker("pool", "create", "tank", "--size", "1G")
        self.keys = home / "s3.keys"
        self.keys.write_text("WRITER secret\nREADER hidden read-only\n")
        self.keys.chmod(0o600)

    def __enter__(self):
        """Return itself."""
        return self

    def __exit__(self, *_):
        """Kill the servers that still run."""
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdout.close()

    def esker(self, *words):
        """Run the tool; return what it prints."""
        done = subprocess.run([ESKER, *words], check=True, capture_output=True, env=self.environment)
        return done.stdout

    def start(self, *options):
        """Start the server, and wait until it serves."""
        command = [ESKER, "serve", "s3", self.pool, "--keys", self.keys, "--listen", "localhost:0", *options]
        with (self.home / "s3.log").open("a") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=self.environment)
        self.processes.append(self.process)
        self.ready = json.loads(self.process.stdout.readline())
        self.url = self.ready["url"]

    def kill(self):
        """Kill the server."""
        self.process.kill()
        self.process.wait()

    def stop(self):
        """End the server; return its exit status."""
        self.process.terminate()
        return self.process.wait()

    def client(self, access="WRITER", secret="secret", **options):
        """Return a client of S3."""
        options = {"s3": {"addressing_style": "path"}, "retries": {"max_attempts": 1}, **options}
        config = Config(**options)
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            aws_access_key_id=access,
            aws_secret_access_key=secret,
            region_name="us-east-1",
            config=config,
        )


def pytest_collection_modifyitems(config, items):
    """Leave out the tests of the server on further pools, unless ESKER_ALL_SUITES is set."""
    if os.environ.get("ESKER_ALL_SUITES"):
        return
    left_out = [item for item in items if _pool_of(item) in POOLS[1:] and item.module.__name__ not in OF_OBJECTS]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _pool_of(item):
    """Return the pool that a test runs on, if it is one of POOLS."""
    return item.callspec.params.get("door") if hasattr(item, "callspec") else None


@pytest.fixture(scope="session", params=POOLS)
def door(request):
    """Return a server for all tests."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as home, Door(pathlib.Path(home), request.param) as door:
        door.start()
        yield door
        assert door.stop() == 0


@pytest.fixture
def s3(door):
    """Return a client of the server."""
    return door.client()


@pytest.fixture
def bucket(s3):
    """Return an empty bucket for a test, which is removed after it."""
    name = f"bucket-{next(NUMBERS)}"
    s3.create_bucket(Bucket=name)
    yield name
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=name):
        for found in page.get("Contents", []):
            s3.delete_object(Bucket=name, Key=found["Key"])
    s3.delete_bucket(Bucket=name)
