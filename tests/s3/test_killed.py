"""Servers that are killed: no answered change is lost, and no unfinished change is visible."""

import pathlib
import random
import tempfile
import threading

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from conftest import Door

MIB = 1 << 20


@pytest.fixture
def killed():
    """Return a server of a test's own."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as home, Door(pathlib.Path(home)) as door:
        door.start()
        door.client().create_bucket(Bucket="home")
        yield door


def content(key, round):
    """Return the content that a writer puts under a key in a round."""
    return random.Random(f"{key} {round}").randbytes(random.Random(round).choice([10, MIB, 3 * MIB]))


def write(door, answered, key, begun):
    """Put one version after another, until the server is gone."""
    s3, round = door.client(), 0
    try:
        while True:
            round += 1
            s3.put_object(Bucket="home", Key=key, Body=content(key, round))
            answered[key] = round
            begun.release()
    except (BotoCoreError, ClientError):
        answered.setdefault(key, 0)


@pytest.mark.parametrize("puts", [1, 20, 50])
def test_answered_puts_survive_and_no_other_content_appears(killed, puts):
    """Each key has the last version that was answered, or all of the next one."""
    answered, begun = {}, threading.Semaphore(0)
    keys = [f"dir{number}/key" for number in range(4)]
    writers = [threading.Thread(target=write, args=(killed, answered, key, begun)) for key in keys]
    for writer in writers:
        writer.start()
    for _ in range(puts):
        begun.acquire()
    killed.kill()
    for writer in writers:
        writer.join()
    killed.start()
    s3 = killed.client()
    found = {one["Key"] for one in s3.list_objects_v2(Bucket="home").get("Contents", [])}
    assert found <= set(keys)
    for key in keys:
        last = answered[key]
        possible = [content(key, round) for round in (last, last + 1) if round]
        if key in found:
            got = s3.get_object(Bucket="home", Key=key)
            assert got["Body"].read() in possible
        else:
            assert last == 0


def test_parts_survive_and_can_be_completed(killed):
    """An upload continues after the server was killed, and an abandoned one can be found and aborted."""
    s3 = killed.client()
    left = s3.create_multipart_upload(Bucket="home", Key="left")
    begun = s3.create_multipart_upload(Bucket="home", Key="a")
    of = {"Bucket": "home", "Key": "a", "UploadId": begun["UploadId"]}
    first = s3.upload_part(**of, PartNumber=1, Body=b"1" * 5 * MIB)["ETag"]
    killed.kill()
    killed.start()
    s3 = killed.client()
    uploads = s3.list_multipart_uploads(Bucket="home")["Uploads"]
    assert sorted(one["Key"] for one in uploads) == ["a", "left"]
    second = s3.upload_part(**of, PartNumber=2, Body=b"2")["ETag"]
    parts = [{"PartNumber": 1, "ETag": first}, {"PartNumber": 2, "ETag": second}]
    s3.complete_multipart_upload(**of, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket="home", Key="a")["Body"].read() == b"1" * 5 * MIB + b"2"
    s3.abort_multipart_upload(Bucket="home", Key="left", UploadId=left["UploadId"])
    assert "Uploads" not in s3.list_multipart_uploads(Bucket="home")


def test_two_servers_serve_one_pool(killed):
    """A second server sees objects of the first one at once."""
    first, s3 = killed.process, killed.client()
    killed.start()
    other = killed.client()
    for round in range(20):
        s3.put_object(Bucket="home", Key="a", Body=str(round).encode())
        assert other.get_object(Bucket="home", Key="a")["Body"].read() == str(round).encode()
        other.delete_object(Bucket="home", Key="a")
        assert s3.list_objects_v2(Bucket="home")["KeyCount"] == 0
    first.terminate()
    assert first.wait() == 0
