"""The server itself: TLS, metrics, limits, hosts, hostile requests, and its end."""

import base64
import hashlib
import http.client
import io
import pathlib
import random
import re
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.request
import zlib

import boto3
import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from conftest import Door

MIB = 1 << 20

# Invalid XML: cut, nested, with entities, and other bytes.
HOSTILE_XML = [b"<", b"<Delete>" * 10000, b"<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>", b"\xff" * 5000]


@pytest.fixture
def own():
    """Return a server of a test's own, which it starts."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as home, Door(pathlib.Path(home)) as door:
        yield door


@pytest.fixture
def certificate(tmp_path):
    """Return a certificate for localhost and its key."""
    made, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,DNS:*.localhost"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command = ["openssl", "req", "-x509", *curve, "-keyout", key, "-out", made, "-days", "2", *names]
    subprocess.run(command, check=True, capture_output=True)
    return made, key


def metrics(door):
    """Return the metrics of a server by their names and labels."""
    page = urllib.request.urlopen(f"http://{door.ready['metrics']}/metrics").read().decode()
    found = [line.rsplit(" ", 1) for line in page.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in found}


def test_tls(own, certificate):
    """With a certificate, the server speaks TLS only."""
    made, key = certificate
    own.start("--tls-certificate", made, "--tls-key", key)
    assert own.url.startswith("https://")
    s3 = boto3.client(
        "s3",
        endpoint_url=own.url,
        aws_access_key_id="WRITER",
        aws_secret_access_key="secret",
        region_name="us-east-1",
        verify=str(made),
        config=Config(s3={"addressing_style": "path"}),
    )
    s3.create_bucket(Bucket="den")
    content = random.Random(1).randbytes(3 * MIB)
    s3.put_object(Bucket="den", Key="a", Body=content)
    assert s3.get_object(Bucket="den", Key="a")["Body"].read() == content
    with pytest.raises((OSError, http.client.HTTPException)):
        urllib.request.urlopen(own.url.replace("https", "http"))
    old = ssl.create_default_context(cafile=str(made))
    old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_2
    with pytest.raises(urllib.error.HTTPError):
        urllib.request.urlopen(own.url, context=old)


def test_metrics_and_health(own):
    """Requests are counted."""
    own.start("--metrics", "0")
    s3 = own.client()
    s3.create_bucket(Bucket="den")
    s3.put_object(Bucket="den", Key="a", Body=b"x" * 1000)
    s3.get_object(Bucket="den", Key="a")["Body"].read()
    with pytest.raises(ClientError):
        s3.get_bucket_policy(Bucket="den")
    found = metrics(own)
    assert found['esker_s3_request_seconds_count{operation="PutObject"}'] == 1
    assert found['esker_s3_request_seconds_count{operation="other"}'] == 1
    assert found["esker_s3_received_bytes_total"] == 1000
    assert found["esker_s3_sent_bytes_total"] == 1000
    assert found['esker_s3_answers_total{status="5xx"}'] == 1
    assert found["esker_s3_connections"] >= 1
    health = urllib.request.urlopen(f"http://{own.ready['metrics']}/health")
    assert health.read() == b"ready\n"


def test_requests_are_logged_without_secrets(own):
    """The log has each request with its number, and no secret."""
    own.start("--log-requests")
    s3 = own.client()
    s3.create_bucket(Bucket="den")
    answer = s3.put_object(Bucket="den", Key="a", Body=b"1")
    number = answer["ResponseMetadata"]["HTTPHeaders"]["x-amz-request-id"]
    log = (own.home / "s3.log").read_text()
    line = next(line for line in log.splitlines() if number in line)
    assert 'operation="PutObject"' in line and "status=200" in line and 'access_key="WRITER"' in line
    assert "secret" not in log


def test_buckets_in_the_name_of_the_host(own):
    """With a domain, a bucket may be part of the host's name."""
    own.start("--domain", "localhost")
    s3 = own.client()
    s3.create_bucket(Bucket="den")
    s3.put_object(Bucket="den", Key="a", Body=b"1")
    url = own.client(signature_version="s3v4", s3={"addressing_style": "virtual"}).generate_presigned_url(
        "get_object", Params={"Bucket": "den", "Key": "a"}, ExpiresIn=60
    )
    host, port = re.match(r"http://(den\.localhost):(\d+)/a", url).groups()
    request = f"GET {url.split(port, 1)[1]} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n"
    assert raw(own, request.encode()) == 200


def test_connections_beyond_the_limit_wait(own):
    """Clients beyond the limit of connections wait until others are served."""
    own.start("--connections", "2", "--metrics", "0")
    own.client().create_bucket(Bucket="den")
    failed = []

    def put(number):
        try:
            s3 = own.client()
            s3.put_object(Bucket="den", Key=f"k{number}", Body=b"x" * MIB)
            s3.close()
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=put, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert metrics(own)["esker_s3_connections"] <= 2
    assert own.client().list_objects_v2(Bucket="den")["KeyCount"] == 12


def test_shutdown_finishes_requests_in_progress(own):
    """A server that is told to end answers the request in progress."""
    own.start()
    s3 = own.client(signature_version="s3v4")
    s3.create_bucket(Bucket="den")
    url = s3.generate_presigned_url("put_object", Params={"Bucket": "den", "Key": "a"}, ExpiresIn=60)
    host, path = url.removeprefix("http://").split("/", 1)
    put = http.client.HTTPConnection(host)
    put.putrequest("PUT", f"/{path}")
    put.putheader("Content-Length", 2 * MIB)
    put.putheader("Expect", "100-continue")
    put.endheaders()
    assert put.sock.recv(4096) == b"HTTP/1.1 100 Continue\r\n\r\n", "it has begun"
    put.send(b"1" * MIB)
    own.process.terminate()
    while accepts(host):
        pass
    put.send(b"2" * MIB)
    assert put.getresponse().status == 200 and own.process.wait() == 0
    assert own.esker("fs", "cat", "tank/den:/a") == b"1" * MIB + b"2" * MIB


def accepts(host):
    """Return whether a server accepts connections."""
    name, port = host.rsplit(":", 1)
    try:
        socket.create_connection((name, int(port))).close()
    except OSError:
        return False
    return True


def raw(door, request):
    """Send bytes, and return the status of the answer; None without an answer."""
    host, port = door.url.removeprefix("http://").rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        try:
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := connection.recv(65536):
                answer += piece
        except OSError:
            return None
    found = re.match(rb"HTTP/1\.1 (\d+)", answer)
    return int(found[1]) if found else None


def test_hostile_requests_are_refused(own):
    """Requests without a valid signature never succeed, and the server keeps running."""
    own.start()
    s3 = own.client()
    s3.create_bucket(Bucket="den")
    s3.put_object(Bucket="den", Key="a", Body=b"1")
    url = own.client(signature_version="s3v4").generate_presigned_url("get_object", Params={"Bucket": "den", "Key": "a"}, ExpiresIn=600)
    host = own.url.removeprefix("http://")
    good = f"GET {url.removeprefix(own.url)} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    assert raw(own, good) == 200
    chance = random.Random(7)
    odd = [b"", b"\x00", b"\r\n", b"%00", b"/../", b"?uploads", b"%2e%2e%2f", b"\xff\xfe", b"A" * 70000]
    odd += [b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n", b"x-amz-date: 1\r\n"]
    for _ in range(1500):
        bad = bytearray(good)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(bad))
            match chance.randrange(3):
                case 0:
                    bad[at] = chance.randrange(256)
                case 1:
                    del bad[at : at + chance.randint(1, 30)]
                case _:
                    bad[at:at] = chance.choice(odd)
        status = raw(own, bytes(bad))
        # The change may be in an unsigned header, which the server ignores.
        head = bytes(bad).split(b"\r\n")[0]
        assert status is None or status >= 400 or head == good.split(b"\r\n")[0], bytes(bad)
    for body in HOSTILE_XML:
        for path in ["/den?delete", "/den/a?uploadId=1", "/den/a?uploads", "/den/a?tagging"]:
            head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            # The server answers without reading the rest, so its answer may be lost with the connection.
            assert raw(own, head + body) in {None, 400, 403, 405, 501}
    form = b'--x\r\nContent-Disposition: form-data; name="key"\r\n\r\nb\r\n--x--\r\n'
    head = f"POST /den HTTP/1.1\r\nHost: {host}\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    assert raw(own, f"{head}Content-Length: {len(form)}\r\n\r\n".encode() + form) == 501
    assert s3.get_object(Bucket="den", Key="a")["Body"].read() == b"1"
    assert s3.list_objects_v2(Bucket="den")["KeyCount"] == 1


def signed(door, method, path, body, headers=None, checksum=None):
    """Send a request with a valid signature, and return the status of the answer; None without an answer."""
    request = AWSRequest(method=method, url=door.url + path, data=body, headers=headers or {})
    if checksum:
        request.context["checksum"] = {"request_algorithm": checksum}
    S3SigV4Auth(Credentials("WRITER", "secret"), "s3", "us-east-1").add_auth(request)
    ready = urllib.request.Request(door.url + path, data=body, method=method, headers=dict(request.headers))
    try:
        return urllib.request.urlopen(ready).status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def test_hostile_bodies_are_refused(own):
    """Invalid, too long or too deep XML is an error of the client, even if it is signed."""
    own.start()
    s3 = own.client()
    s3.create_bucket(Bucket="den")
    s3.put_object(Bucket="den", Key="a", Body=b"1")
    upload = s3.create_multipart_upload(Bucket="den", Key="a")["UploadId"]
    for body in [*HOSTILE_XML, b"<Delete>" + b"<Object><Key>x</Key></Object>" * 1001 + b"</Delete>"]:
        assert 400 <= signed(own, "POST", "/den?delete=", body) < 500
        assert 400 <= signed(own, "POST", f"/den/a?uploadId={upload}", body) < 500
        assert 400 <= signed(own, "PUT", "/den/a?tagging=", body) < 500
    for path in ["/den/a?partNumber=0&uploadId=x", f"/den/a?partNumber=99999&uploadId={upload}"]:
        assert signed(own, "PUT", path, b"1") in {400, 404}
    for path in ["/den?list-type=2&max-keys=-1", "/den?continuation-token=zz&list-type=2", "/den?max-keys=x"]:
        assert signed(own, "GET", path, b"") == 400
    assert s3.get_object(Bucket="den", Key="a")["Body"].read() == b"1"


def test_a_chunk_that_is_held_is_bounded(own):
    """A client that sends all of a large body as one chunk is refused; in small chunks it is served."""
    own.start()
    own.client().create_bucket(Bucket="den")
    data = b"x" * (24 * MIB)
    crc = base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()

    def put(size):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        chunks = b"".join(f"{len(piece):x}\r\n".encode() + piece + b"\r\n" for piece in pieces)
        body = chunks + f"0\r\nx-amz-checksum-crc32:{crc}\r\n\r\n".encode()
        headers = {
            "x-amz-decoded-content-length": str(len(data)),
            "x-amz-trailer": "x-amz-checksum-crc32",
            "Content-Encoding": "aws-chunked",
        }
        return signed(own, "PUT", "/den/a", body, headers, {"algorithm": "crc32", "in": "trailer"})

    assert put(MIB) == 200
    assert own.client().head_object(Bucket="den", Key="a")["ContentLength"] == len(data)
    assert put(len(data)) in {None, 400}


def resident(door):
    """Return the bytes of memory that the server has."""
    status = pathlib.Path(f"/proc/{door.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+) kB", status)[1]) * 1024


def test_memory_stays_flat(own):
    """Objects larger than the memory of a connection pass through the same memory."""
    own.start("--connections", "8")
    s3 = own.client()
    s3.create_bucket(Bucket="den")
    content = random.Random(1).randbytes(64 * MIB)

    def round():
        s3.put_object(Bucket="den", Key="big", Body=content)
        body = s3.get_object(Bucket="den", Key="big")["Body"]
        assert sum(len(piece) for piece in body.iter_chunks(MIB)) == len(content)
        for number in range(50):
            s3.put_object(Bucket="den", Key=f"d/{number}", Body=b"x" * 100)
            s3.list_objects_v2(Bucket="den")
            s3.delete_object(Bucket="den", Key=f"d/{number}")

    for _ in range(2):
        round()
    before = resident(own)
    for _ in range(4):
        round()
    # The server maps the memory of the pool, so a part of the written bytes counts.
    assert resident(own) - before < 200 * MIB


def ended(stream):
    """Return the bytes that arrive until the server closes the connection."""
    return b"".join(iter(lambda: stream.recv(MIB), b""))


def test_clients_that_stop_are_dropped(own):
    """The server waits --idle seconds for a client that stops in a request or an answer, or sends no other request."""
    # On a busy machine, a put may pause for longer than the server of the test waits.
    own.start()
    own.client().create_bucket(Bucket="den")
    own.client().put_object(Bucket="den", Key="big", Body=bytes(64 * MIB))
    assert own.stop() == 0
    own.start("--idle", "1", "--metrics", "0")
    s3 = own.client(signature_version="s3v4")
    host, port = own.url.removeprefix("http://").split(":")

    def path(method, key):
        url = s3.generate_presigned_url(method, Params={"Bucket": "den", "Key": key})
        return url.removeprefix(own.url)

    put, get = path("put_object", "a"), path("get_object", "big")
    with (
        socket.create_connection((host, int(port))) as head,
        socket.create_connection((host, int(port))) as body,
        socket.create_connection((host, int(port))) as reader,
    ):
        head.sendall(f"PUT {put} HTTP/1.1\r\nHost:".encode())
        body.sendall(f"PUT {put} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: 9\r\n\r\nabc".encode())
        reader.sendall(f"GET {get} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
        ended(head)
        assert b"RequestTimeout" in ended(body)
        end = time.monotonic() + 120
        while metrics(own)["esker_s3_connections"] > 0:
            assert time.monotonic() < end, "the server has not dropped its clients"
            time.sleep(0.01)
        # Bytes that were already sent arrive, but not all of the object.
        assert 0 < len(ended(reader)) < 64 * MIB
    assert "a" not in [found["Key"] for found in s3.list_objects_v2(Bucket="den")["Contents"]]


def test_etags_that_are_not_md5s(own):
    """With --etag xxh3, ETags look like those of multipart uploads and work in conditions, and MD5s are still verified."""
    own.start("--etag", "xxh3")
    s3 = own.client()
    s3.create_bucket(Bucket="den")
    data = b"x" * 100
    etag = s3.put_object(Bucket="den", Key="a", Body=data)["ETag"]
    assert re.fullmatch(r'"[0-9a-f]{32}-1"', etag)
    assert s3.put_object(Bucket="den", Key="b", Body=data)["ETag"] == etag
    assert s3.put_object(Bucket="den", Key="b", Body=b"y")["ETag"] != etag
    assert s3.copy_object(Bucket="den", Key="c", CopySource="den/a")["CopyObjectResult"]["ETag"] == etag
    assert s3.get_object(Bucket="den", Key="a", IfMatch=etag)["Body"].read() == data
    with pytest.raises(ClientError, match="PreconditionFailed"):
        s3.put_object(Bucket="den", Key="b", Body=data, IfMatch=etag)
    md5 = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    with pytest.raises(ClientError, match="BadDigest"):
        s3.put_object(Bucket="den", Key="d", Body=data, ContentMD5=md5)
    s3.upload_fileobj(io.BytesIO(bytes(17 * MIB)), "den", "parts")
    parts = s3.head_object(Bucket="den", Key="parts")
    assert parts["ContentLength"] == 17 * MIB
    assert re.fullmatch(r'"[0-9a-f]{32}-3"', parts["ETag"])


@pytest.mark.parametrize("size", [0, 1, MIB])
def test_an_answer_before_the_body_is_the_last_of_its_connection(door, size):
    """botocore misreads an answer to an empty body with Expect, and sends its next request in place of a body.

    So the server closes the connection if it has not asked for the body."""
    host, port = door.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as raw:
        raw.sendall(f"PUT /b/k HTTP/1.1\r\nHost: h\r\nContent-Length: {size}\r\nExpect: 100-continue\r\n\r\n".encode())
        answer = b""
        while more := raw.recv(4096):
            answer += more
    assert answer.startswith(b"HTTP/1.1 403") and b"connection: close\r\n" in answer.lower()


def test_a_client_refused_before_its_body_may_go_on(door):
    """A client whose put is refused sends its next request on a new connection."""
    door.client().create_bucket(Bucket="goes-on")
    reader = door.client("READER", "hidden")
    for _ in range(50):
        for call, more in [(reader.put_object, {"Body": b"D"}), (reader.delete_object, {})]:
            with pytest.raises(ClientError, match="AccessDenied"):
                call(Bucket="goes-on", Key="a", **more)
    door.client().delete_bucket(Bucket="goes-on")


def test_requests_on_a_durable_pool_sync_few_times(own, tmp_path):
    """A request that deletes many objects takes few syncs, whatever their number."""
    library, log = tmp_path / "syncs.so", tmp_path / "syncs.log"
    source = pathlib.Path(__file__).parents[1] / "crash" / "syncs.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    own.esker("pool", "create", "durable", "--size", "256M", "--targets", "2", "--durability", "commit")
    own.pool = "durable"
    own.environment |= {"LD_PRELOAD": str(library), "SYNCS_LOG": str(log)}
    own.start()
    s3 = own.client()

    def syncs(request, **parameters):
        """Return the number of syncs of a request."""
        before = log.stat().st_size if log.exists() else 0
        request(Bucket="den", **parameters)
        return log.stat().st_size - before

    s3.create_bucket(Bucket="den")
    keys = [f"d{number % 5}/k{number}" for number in range(300)]
    for key in keys:
        s3.put_object(Bucket="den", Key=key, Body=b"content")
    # Once a second, a put also stores the time of the directory.
    assert min(syncs(s3.put_object, Key=f"d0/more{number}", Body=b"content") for number in range(5)) <= 4
    keys += [f"d0/more{number}" for number in range(5)]
    assert 4 <= syncs(s3.delete_objects, Delete={"Objects": [{"Key": key} for key in keys]}) <= 60
    assert s3.list_objects_v2(Bucket="den")["KeyCount"] == 0
