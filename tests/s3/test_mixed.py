"""Several clients make all kinds of calls and compare gets with puts, and the server's memory stays flat."""

import contextlib
import os
import pathlib
import random
import re
import socket
import tempfile
import threading

import pytest
from conftest import Door

MIB = 1 << 20
CLIENTS = 4
KEYS = 12

# Steps of each client: few in `make test`, many in `make soak`.
STEPS = int(os.environ.get("ESKER_S3_STEPS", "60"))
SEED = int(os.environ.get("ESKER_SEED", "1"))

# Memory that a server may need more at the end than in the middle: buffers that clients fill at the same moment.
GROWTH_MAX = 24 * MIB


def memory(door):
    """Return the bytes of memory that are the server's alone: not the pool, which it has mapped."""
    status = pathlib.Path(f"/proc/{door.process.pid}/status").read_text()
    return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) * 1024


class Client:
    """A client with a folder of its own, and the expected content."""

    def __init__(self, door, number):
        """Take a seed for its random choices."""
        self.door, self.folder = door, f"client-{number}"
        self.random = random.Random(SEED * CLIENTS + number)
        self.s3 = door.client(signature_version="s3v4", retries={"max_attempts": 3})
        self.there = {}

    def run(self, steps):
        """Take a number of steps."""
        for _ in range(steps):
            self.random.choice(self.ACTIONS)(self)

    def key(self):
        """Draw a key, in one directory of several."""
        return f"{self.folder}/{self.random.randrange(3)}/{self.random.randrange(KEYS)}"

    def some(self):
        """Draw an existing key, or None."""
        return self.random.choice(sorted(self.there)) if self.there else None

    def data(self, most):
        """Draw content."""
        return self.random.randbytes(int(most * self.random.random() ** 4))

    def put(self):
        """Put an object, small or large, with one of several checksums."""
        key, data = self.key(), self.data(3 * MIB)
        sums = self.random.choice(["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
        self.s3.put_object(Bucket="den", Key=key, Body=data, ChecksumAlgorithm=sums)
        self.there[key] = data

    def get(self):
        """Get an object, or a range of it."""
        if (key := self.some()) is None:
            return
        data = self.there[key]
        assert self.s3.get_object(Bucket="den", Key=key)["Body"].read() == data
        if data:
            first = self.random.randrange(len(data))
            last = self.random.randrange(first, len(data))
            part = self.s3.get_object(Bucket="den", Key=key, Range=f"bytes={first}-{last}")["Body"].read()
            assert part == data[first : last + 1]

    def copy(self):
        """Copy an object."""
        if (source := self.some()) is not None and (key := self.key()) != source:
            self.s3.copy_object(Bucket="den", Key=key, CopySource=f"den/{source}")
            self.there[key] = self.there[source]

    def remove(self):
        """Delete an object, or several."""
        keys = {self.key() for _ in range(self.random.choice([1, 5]))}
        self.s3.delete_objects(Bucket="den", Delete={"Objects": [{"Key": key} for key in keys]})
        for key in keys:
            self.there.pop(key, None)

    def list(self):
        """List the folder, in pages."""
        size = self.random.choice([1, 3, 1000])
        pages = self.s3.get_paginator("list_objects_v2").paginate(Bucket="den", Prefix=self.folder + "/", PaginationConfig={"PageSize": size})
        found = {item["Key"]: item["Size"] for page in pages for item in page.get("Contents", [])}
        assert found == {key: len(data) for key, data in self.there.items()}

    def upload(self):
        """Upload an object in parts, or begin and abort an upload."""
        key, parts = self.key(), [self.random.randbytes(5 * MIB), self.data(MIB)]
        upload = self.s3.create_multipart_upload(Bucket="den", Key=key)["UploadId"]
        place = {"Bucket": "den", "Key": key, "UploadId": upload}
        etags = [self.s3.upload_part(**place, PartNumber=number, Body=part)["ETag"] for number, part in enumerate(parts, 1)]
        if self.random.random() < 0.3:
            self.s3.abort_multipart_upload(**place)
            return
        chosen = [{"PartNumber": number, "ETag": etag} for number, etag in enumerate(etags, 1)]
        self.s3.complete_multipart_upload(**place, MultipartUpload={"Parts": chosen})
        self.there[key] = b"".join(parts)

    def leave(self):
        """Close the connection in the middle of a put or a get."""
        method = self.random.choice(["put_object", "get_object"])
        key = self.some() or self.key()
        url = self.s3.generate_presigned_url(method, Params={"Bucket": "den", "Key": key})
        host, port = self.door.url.removeprefix("http://").split(":")
        verb = method.split("_")[0].upper()
        length = f"Content-Length: {MIB}\r\n" if verb == "PUT" else ""
        head = f"{verb} {url.removeprefix(self.door.url)} HTTP/1.1\r\nHost: {host}:{port}\r\n{length}\r\n"
        # The server may have refused and closed already.
        with socket.create_connection((host, int(port))) as stream, contextlib.suppress(ConnectionError):
            stream.sendall(head.encode() + self.random.randbytes(self.random.randrange(1000)))
            stream.recv(1000) if verb == "GET" else None

    def babble(self):
        """Send bytes that are not a request."""
        host, port = self.door.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as stream, contextlib.suppress(ConnectionError):
            stream.sendall(self.random.randbytes(200) + b"\r\n\r\n")
            stream.shutdown(socket.SHUT_WR)
            stream.recv(1000)

    # Puts and gets are the most frequent.
    ACTIONS = (put, put, put, get, get, get, get, copy, remove, list, upload, leave, babble)


def all_of(clients, steps):
    """Let all clients take `steps` steps at the same time; fail if one fails."""
    errors = []

    def run(client):
        try:
            client.run(steps)
        except BaseException as error:
            errors.append(error)
            raise

    threads = [threading.Thread(target=run, args=[client]) for client in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


@pytest.mark.parametrize("etag", ["md5", "xxh3"])
def test_a_mixed_load_leaves_memory_flat(etag):
    """Clients find the objects that they put, and the server needs no more memory in the end than in the middle."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as home, Door(pathlib.Path(home)) as door:
        door.start("--etag", etag)
        door.client().create_bucket(Bucket="den")
        clients = [Client(door, number) for number in range(CLIENTS)]
        all_of(clients, STEPS // 2)
        before = memory(door)
        all_of(clients, STEPS - STEPS // 2)
        after = memory(door)
        for client in clients:
            client.list()
        assert door.stop() == 0
        print(f"{STEPS} steps of {CLIENTS} clients: {before / MIB:.1f} -> {after / MIB:.1f} MiB")
        assert after - before < GROWTH_MAX
