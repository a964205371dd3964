"""Objects: put, get, head, delete, conditions, copies, metadata and tags, as boto3 asks for them."""

import hashlib
import io
import json
import random
import subprocess
import urllib.request
from datetime import datetime, timezone

import pytest
from botocore.exceptions import ClientError

MIB = 1 << 20


def code(call, **arguments):
    """Return the code of a call's error."""
    with pytest.raises(ClientError) as error:
        call(**arguments)
    return error.value.response["Error"]["Code"]


def noise(count, seed=1):
    """Return bytes that look random."""
    return random.Random(seed).randbytes(count)


@pytest.mark.parametrize("size", [0, 1, 1000, MIB - 1, MIB, MIB + 1, 5 * MIB + 7])
def test_objects_are_read_as_they_were_put(s3, bucket, size):
    """Objects of all sizes come back, with their MD5 as the ETag."""
    content = noise(size)
    put = s3.put_object(Bucket=bucket, Key="run1/out.bin", Body=content)
    assert put["ETag"] == f'"{hashlib.md5(content).hexdigest()}"'
    got = s3.get_object(Bucket=bucket, Key="run1/out.bin")
    assert got["Body"].read() == content
    assert (got["ContentLength"], got["ETag"]) == (size, put["ETag"])
    head = s3.head_object(Bucket=bucket, Key="run1/out.bin")
    assert (head["ContentLength"], head["ETag"]) == (size, put["ETag"])
    assert head["ContentType"] == "binary/octet-stream"
    assert head["LastModified"] == got["LastModified"]


def test_a_put_replaces_an_object_as_a_whole(s3, bucket):
    """A shorter object leaves nothing of a longer one, nor of its metadata."""
    s3.put_object(Bucket=bucket, Key="a", Body=b"long", Metadata={"k": "v"}, Tagging="t=1")
    s3.put_object(Bucket=bucket, Key="a", Body=b"b")
    got = s3.get_object(Bucket=bucket, Key="a")
    assert (got["Body"].read(), got["Metadata"]) == (b"b", {})
    assert s3.get_object_tagging(Bucket=bucket, Key="a")["TagSet"] == []


def test_ranges(s3, bucket):
    """Ranges are those of HTTP."""
    content = noise(3 * MIB)
    s3.put_object(Bucket=bucket, Key="a", Body=content)

    def get(range):
        return s3.get_object(Bucket=bucket, Key="a", Range=range)

    for first, last in [(0, 0), (5, 9), (MIB - 1, MIB), (0, len(content) - 1), (2 * MIB, 9 * MIB)]:
        got = get(f"bytes={first}-{last}")
        assert got["Body"].read() == content[first : last + 1]
        end = min(last, len(content) - 1)
        assert got["ContentRange"] == f"bytes {first}-{end}/{len(content)}"
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
        head = s3.head_object(Bucket=bucket, Key="a", Range=f"bytes={first}-{last}")
        assert head["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert get("bytes=-10")["Body"].read() == content[-10:]
    assert get(f"bytes={MIB}-")["Body"].read() == content[MIB:]
    assert code(get, range=f"bytes={len(content)}-") == "InvalidRange"


def test_missing_objects_and_buckets(s3, bucket):
    """Missing objects and buckets have errors of their own; deleting a missing object is not an error."""
    assert code(s3.get_object, Bucket=bucket, Key="none") == "NoSuchKey"
    assert code(s3.head_object, Bucket=bucket, Key="a/b") == "404"
    assert code(s3.get_object, Bucket="no-such-bucket", Key="a") == "NoSuchBucket"
    assert code(s3.head_bucket, Bucket="no-such-bucket") == "404"
    s3.delete_object(Bucket=bucket, Key="none/at/all")
    for key in ["a//b", "../a", "a/../b"]:
        assert code(s3.get_object, Bucket=bucket, Key=key) in {"NoSuchKey", "SignatureDoesNotMatch"}
    assert code(s3.put_object, Bucket=bucket, Key="a//b", Body=b"") == "InvalidArgument"
    assert code(s3.put_object, Bucket=bucket, Key=".esker-s3/x", Body=b"") == "InvalidArgument"
    assert code(s3.put_object, Bucket=bucket, Key="x" * 1025, Body=b"") == "KeyTooLongError"


def test_objects_have_no_keys_below_them(s3, bucket):
    """Keys are paths, so an object has no keys below it."""
    s3.put_object(Bucket=bucket, Key="a/b", Body=b"1")
    assert code(s3.put_object, Bucket=bucket, Key="a", Body=b"2") == "InvalidRequest"
    assert code(s3.put_object, Bucket=bucket, Key="a/b/c", Body=b"2") == "InvalidRequest"
    assert code(s3.get_object, Bucket=bucket, Key="a/b/c") == "NoSuchKey"
    assert s3.get_object(Bucket=bucket, Key="a/b")["Body"].read() == b"1"


def test_directories_are_removed_with_their_last_object(s3, bucket):
    """A directory that a put has made is not an object, and is removed with its last object."""
    s3.put_object(Bucket=bucket, Key="a/b/c/d", Body=b"1")
    s3.put_object(Bucket=bucket, Key="a/e", Body=b"1")
    s3.delete_object(Bucket=bucket, Key="a/b/c/d")
    keys = [found["Key"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]]
    assert keys == ["a/e"]
    s3.delete_object(Bucket=bucket, Key="a/e")
    assert s3.list_objects_v2(Bucket=bucket, Delimiter="/")["KeyCount"] == 0


def test_directories_can_be_objects(s3, bucket):
    """A key that ends with a slash is a directory: programs put such keys to mark directories."""
    s3.put_object(Bucket=bucket, Key="a/b/", Body=b"")
    assert s3.head_object(Bucket=bucket, Key="a/b/")["ContentLength"] == 0
    assert s3.get_object(Bucket=bucket, Key="a/b/")["Body"].read() == b""
    assert code(s3.head_object, Bucket=bucket, Key="a/b") == "404"
    assert code(s3.head_object, Bucket=bucket, Key="a/") == "404"
    s3.put_object(Bucket=bucket, Key="a/b/c", Body=b"1")
    s3.delete_object(Bucket=bucket, Key="a/b/")
    assert code(s3.head_object, Bucket=bucket, Key="a/b/") == "404"
    assert code(s3.put_object, Bucket=bucket, Key="d/", Body=b"1") == "InvalidArgument"


def test_conditions_of_gets(s3, bucket):
    """Gets depend on ETags and times."""
    etag = s3.put_object(Bucket=bucket, Key="a", Body=b"1")["ETag"]
    time = s3.head_object(Bucket=bucket, Key="a")["LastModified"]

    def get(**condition):
        return s3.get_object(Bucket=bucket, Key="a", **condition)

    assert get(IfMatch=etag)["Body"].read() == b"1"
    assert get(IfNoneMatch='"other"')["Body"].read() == b"1"
    assert get(IfUnmodifiedSince=time)["Body"].read() == b"1"
    assert code(get, IfMatch='"other"') == "PreconditionFailed"
    assert code(get, IfNoneMatch=etag) == "304"
    assert code(get, IfModifiedSince=time) == "304"
    assert code(s3.head_object, Bucket=bucket, Key="a", IfNoneMatch=etag) == "304"
    assert code(s3.head_object, Bucket=bucket, Key="a", IfMatch='"other"') == "412"


def test_conditions_of_puts_and_deletes(s3, bucket):
    """Puts and deletes depend on the existing object."""

    def put(body, **condition):
        return s3.put_object(Bucket=bucket, Key="a/b", Body=body, **condition)["ETag"]

    assert code(put, body=b"0", IfMatch='"some"') == "NoSuchKey"
    first = put(b"1", IfNoneMatch="*")
    assert code(put, body=b"2", IfNoneMatch="*") == "PreconditionFailed"
    assert code(put, body=b"2", IfMatch='"other"') == "PreconditionFailed"
    second = put(b"2", IfMatch=first)
    assert s3.get_object(Bucket=bucket, Key="a/b")["Body"].read() == b"2"
    assert code(s3.delete_object, Bucket=bucket, Key="a/b", IfMatch=first) == "PreconditionFailed"
    s3.delete_object(Bucket=bucket, Key="a/b", IfMatch=second)
    assert code(s3.head_object, Bucket=bucket, Key="a/b") == "404"


def test_metadata(s3, bucket):
    """Metadata of an object are returned as the client set them."""
    about = {
        "ContentType": "text/plain",
        "ContentEncoding": "gzip",
        "ContentLanguage": "de",
        "ContentDisposition": 'attachment; filename="x"',
        "CacheControl": "no-cache",
        "Metadata": {"run": "7", "who": "me"},
    }
    s3.put_object(Bucket=bucket, Key="a", Body=b"1", **about)
    for found in [s3.head_object(Bucket=bucket, Key="a"), s3.get_object(Bucket=bucket, Key="a")]:
        assert {name: found[name] for name in about} == about
    too_much = {"k": "v" * 2048}
    assert code(s3.put_object, Bucket=bucket, Key="b", Body=b"", Metadata=too_much) == "MetadataTooLarge"


def test_encodings_and_attributes(s3, bucket):
    """The encoding of a request is not kept, and only requested attributes are returned."""
    s3.put_object(Bucket=bucket, Key="a", Body=b"123", ContentEncoding="aws-chunked, deflate, gzip", Tagging="t=1")
    head = s3.head_object(Bucket=bucket, Key="a")
    assert head["ContentEncoding"] == "deflate, gzip"
    assert head["ResponseMetadata"]["HTTPHeaders"]["x-amz-tagging-count"] == "1"
    found = s3.get_object_attributes(Bucket=bucket, Key="a", ObjectAttributes=["ETag", "ObjectSize"])
    assert found["ObjectSize"] == 3 and found["ETag"].strip('"') == head["ETag"].strip('"')
    assert "StorageClass" not in found


def test_tags(s3, bucket):
    """Tags are set with the object and later."""

    def tags():
        return {tag["Key"]: tag["Value"] for tag in s3.get_object_tagging(Bucket=bucket, Key="a")["TagSet"]}

    s3.put_object(Bucket=bucket, Key="a", Body=b"1", Tagging="x=1&y%20z=2%2F3")
    assert tags() == {"x": "1", "y z": "2/3"}
    assert s3.get_object(Bucket=bucket, Key="a")["TagCount"] == 2
    etag = s3.head_object(Bucket=bucket, Key="a")["ETag"]
    s3.put_object_tagging(Bucket=bucket, Key="a", Tagging={"TagSet": [{"Key": "only", "Value": ""}]})
    assert tags() == {"only": ""}
    s3.delete_object_tagging(Bucket=bucket, Key="a")
    assert tags() == {}
    assert s3.head_object(Bucket=bucket, Key="a")["ETag"] == etag
    many = "&".join(f"k{number}=v" for number in range(11))
    assert code(s3.put_object, Bucket=bucket, Key="b", Body=b"", Tagging=many) == "InvalidTag"


def test_copies(s3, bucket):
    """Copies keep or replace metadata and tags."""
    content = noise(3 * MIB + 5)
    s3.put_object(Bucket=bucket, Key="a", Body=content, Metadata={"k": "v"}, ContentType="text/x", Tagging="t=1")
    source = {"Bucket": bucket, "Key": "a"}
    copied = s3.copy_object(Bucket=bucket, Key="dir/b", CopySource=source)["CopyObjectResult"]
    got = s3.get_object(Bucket=bucket, Key="dir/b")
    assert got["Body"].read() == content
    assert (got["ETag"], got["Metadata"], got["ContentType"]) == (copied["ETag"], {"k": "v"}, "text/x")
    assert got["TagCount"] == 1
    s3.copy_object(
        Bucket=bucket,
        Key="a",
        CopySource=source,
        MetadataDirective="REPLACE",
        Metadata={"new": "1"},
        TaggingDirective="REPLACE",
        Tagging="",
    )
    got = s3.get_object(Bucket=bucket, Key="a")
    assert (got["Body"].read(), got["Metadata"], got.get("TagCount")) == (content, {"new": "1"}, None)
    assert code(s3.copy_object, Bucket=bucket, Key="a", CopySource=source) == "InvalidRequest"
    none = {"Bucket": bucket, "Key": "none"}
    assert code(s3.copy_object, Bucket=bucket, Key="c", CopySource=none) == "NoSuchKey"
    wrong = {"Bucket": bucket, "Key": "c", "CopySource": source, "CopySourceIfMatch": '"other"'}
    assert code(s3.copy_object, **wrong) == "PreconditionFailed"


def test_many_are_deleted_at_once(s3, bucket):
    """One request deletes many objects, and the answer names them."""
    keys = [f"d{number % 7}/k{number}" for number in range(50)]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    wanted = [{"Key": key} for key in [*keys, "none"]]
    done = s3.delete_objects(Bucket=bucket, Delete={"Objects": wanted})
    assert sorted(one["Key"] for one in done["Deleted"]) == sorted([*keys, "none"])
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_each_of_many_deletions_has_its_own_result(s3, bucket):
    """One key that cannot be deleted does not stop the others, and only its error is reported."""
    contents = {"a": b"a", "b/c": b"c", "b/d": b"d", "e/": b""}
    etags = {key: s3.put_object(Bucket=bucket, Key=key, Body=body)["ETag"] for key, body in contents.items()}
    wanted = [
        {"Key": "a", "ETag": etags["b/c"]},
        {"Key": "b/c", "ETag": etags["b/c"]},
        {"Key": "b/c"},
        {"Key": "b/d"},
        {"Key": "none", "ETag": etags["a"]},
        {"Key": "a/below"},
        {"Key": "b"},
        {"Key": "e/"},
        {"Key": "x//y"},
        {"Key": "a", "VersionId": "1"},
    ]
    done = s3.delete_objects(Bucket=bucket, Delete={"Objects": wanted})
    failed = sorted((one["Key"], one["Code"]) for one in done["Errors"])
    assert failed == [("a", "NotImplemented"), ("a", "PreconditionFailed"), ("none", "NoSuchKey")]
    deleted = sorted(one["Key"] for one in done["Deleted"])
    assert deleted == ["a/below", "b", "b/c", "b/c", "b/d", "e/", "x//y"]
    assert [one["Key"] for one in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["a"]


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "SHA1", "SHA256", "CRC64NVME"])
def test_checksums_are_verified_and_kept(s3, bucket, algorithm):
    """A client's checksum is verified, kept, and returned on request."""
    put = s3.put_object(Bucket=bucket, Key="a", Body=noise(2 * MIB), ChecksumAlgorithm=algorithm)
    name = f"Checksum{algorithm}"
    head = s3.head_object(Bucket=bucket, Key="a", ChecksumMode="ENABLED")
    assert head[name] == put[name]
    assert s3.get_object(Bucket=bucket, Key="a", ChecksumMode="ENABLED")["Body"].read() == noise(2 * MIB)


def test_puts_with_wrong_checksums_are_refused(s3, bucket):
    """A put whose checksum is wrong changes nothing."""
    s3.put_object(Bucket=bucket, Key="a", Body=b"before")
    wrong = {"Bucket": bucket, "Key": "a", "Body": b"after"}
    assert code(s3.put_object, **wrong, ChecksumSHA256="AAAA") == "BadDigest"
    assert code(s3.put_object, **wrong, ContentMD5="1B2M2Y8AsgTpgAmY7PhCfg==") == "BadDigest"
    assert code(s3.put_object, **wrong, ContentMD5="x") == "InvalidDigest"
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"before"


def test_requests_without_a_valid_key_are_refused(door, s3, bucket):
    """Unknown keys, wrong secrets and no signature are refused; a key for reading only reads."""
    s3.put_object(Bucket=bucket, Key="a", Body=b"1")
    assert code(door.client("NOBODY").list_buckets) == "InvalidAccessKeyId"
    assert code(door.client(secret="wrong").get_object, Bucket=bucket, Key="a") == "SignatureDoesNotMatch"
    old = door.client(signature_version="s3")
    assert code(old.get_object, Bucket=bucket, Key="a") == "AccessDenied"
    for method, path in [("GET", f"/{bucket}/a"), ("PUT", f"/{bucket}/b"), ("GET", "/"), ("DELETE", f"/{bucket}/a")]:
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(urllib.request.Request(door.url + path, method=method, data=None))
        assert error.value.code == 403
    reader = door.client("READER", "hidden")
    assert reader.get_object(Bucket=bucket, Key="a")["Body"].read() == b"1"
    assert reader.list_objects_v2(Bucket=bucket)["KeyCount"] == 1
    assert code(reader.put_object, Bucket=bucket, Key="b", Body=b"2") == "AccessDenied"
    assert code(reader.delete_object, Bucket=bucket, Key="a") == "AccessDenied"
    assert code(reader.create_bucket, Bucket="of-a-reader") == "AccessDenied"


def test_presigned_urls(door, s3, bucket):
    """A presigned URL is sufficient for its operation, until it expires."""
    s3 = door.client(signature_version="s3v4")
    put = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "a b"}, ExpiresIn=60)
    request = urllib.request.Request(put, data=b"by url", method="PUT")
    assert urllib.request.urlopen(request).status == 200
    get = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "a b"}, ExpiresIn=60)
    assert urllib.request.urlopen(get).read() == b"by url"
    for wrong in [get.replace("a%20b", "a"), get[:-1] + ("0" if get[-1] != "0" else "1")]:
        with pytest.raises(urllib.error.HTTPError) as error:
            urllib.request.urlopen(wrong)
        assert error.value.code == 403


def test_unsupported_operations_are_not_implemented(s3, bucket):
    """Unsupported operations are answered NotImplemented."""
    s3.put_object(Bucket=bucket, Key="a", Body=b"1")
    one = {"Bucket": bucket, "Key": "a"}
    for call, arguments in [
        (s3.get_bucket_policy, {"Bucket": bucket}),
        (s3.get_object_acl, one),
        (s3.put_bucket_versioning, {"Bucket": bucket, "VersioningConfiguration": {"Status": "Enabled"}}),
        (s3.get_object, {**one, "VersionId": "1"}),
        (s3.put_object, {**one, "Body": b"", "ServerSideEncryption": "AES256"}),
        (s3.restore_object, one),
        (s3.put_object, {**one, "Body": b"", "WriteOffsetBytes": 1}),
        (s3.put_object, {**one, "Body": b"", "ACL": "public-read"}),
        (s3.put_object, {**one, "Body": b"", "WebsiteRedirectLocation": "/b"}),
        (s3.put_object, {**one, "Body": b"", "ObjectLockLegalHoldStatus": "ON"}),
        (s3.get_object, {**one, "ExpectedBucketOwner": "1"}),
        (s3.delete_object, {**one, "IfMatchSize": 1}),
        (s3.create_bucket, {"Bucket": "locked", "ObjectLockEnabledForBucket": True}),
    ]:
        assert code(call, **arguments) == "NotImplemented"
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    assert s3.get_bucket_location(Bucket=bucket)["LocationConstraint"] is None


def test_buckets_are_containers(door, s3, bucket):
    """Buckets are created and removed with containers."""
    found = s3.list_buckets()["Buckets"]
    made = next(one["CreationDate"] for one in found if one["Name"] == bucket)
    assert abs((datetime.now(timezone.utc) - made).total_seconds()) < 600
    names = [one["Name"] for one in found]
    assert bucket in names and names == sorted(names)
    assert code(s3.create_bucket, Bucket=bucket) == "BucketAlreadyOwnedByYou"
    s3.put_object(Bucket=bucket, Key="a/b", Body=b"")
    assert code(s3.delete_bucket, Bucket=bucket) == "BucketNotEmpty"
    door.esker("cont", "create", "tank", "made-by-the-tool", "--type", "posix")
    s3.put_object(Bucket="made-by-the-tool", Key="a", Body=b"")
    s3.delete_object(Bucket="made-by-the-tool", Key="a")
    s3.delete_bucket(Bucket="made-by-the-tool")


def test_objects_without_files_are_read(door, s3, bucket, tmp_path):
    """Arrays and values of a container without files are read-only objects."""
    door.esker("cont", "create", "tank", "plain")
    assert "Contents" not in s3.list_objects_v2(Bucket="plain")
    content = bytes(range(251)) * 20_000
    (tmp_path / "content").write_bytes(content)
    door.esker("array", "put", "tank/plain", "grid", str(tmp_path / "content"))
    door.esker("kv", "put", "tank/plain", "settings", "a/b", "value")
    ids = {one["type"]: one["oid"] for one in json.loads(door.esker("--json", "object", "list", "tank/plain"))["response"]}
    grid, value = ids["Array"], f"{ids['KvHashed']}/a/b"
    listed = {one["Key"]: one for one in s3.list_objects_v2(Bucket="plain")["Contents"]}
    assert {key: one["Size"] for key, one in listed.items()} == {grid: len(content), value: 5}
    prefixes = s3.list_objects_v2(Bucket="plain", Delimiter="/")["CommonPrefixes"]
    assert prefixes == [{"Prefix": value.removesuffix("a/b")}]

    got = s3.get_object(Bucket="plain", Key=grid)
    assert got["Body"].read() == content and got["ETag"] == listed[grid]["ETag"]
    assert abs((datetime.now(timezone.utc) - got["LastModified"]).total_seconds()) < 600
    part = s3.get_object(Bucket="plain", Key=grid, Range="bytes=1048570-3000000", IfMatch=got["ETag"])
    assert part["Body"].read() == content[1048570:3000001]
    assert s3.get_object(Bucket="plain", Key=value)["Body"].read() == b"value"
    assert s3.head_object(Bucket="plain", Key=value)["ContentLength"] == 5
    assert code(s3.get_object, Bucket="plain", Key="1.2") == "NoSuchKey"
    assert code(s3.get_object, Bucket="plain", Key=grid, IfNoneMatch=got["ETag"]) == "304"

    one = {"Bucket": "plain", "Key": grid}
    for call, arguments in [
        (s3.put_object, {**one, "Body": b""}),
        (s3.delete_object, one),
        (s3.get_object_tagging, one),
        (s3.create_multipart_upload, one),
        (s3.copy_object, {"Bucket": bucket, "Key": "a", "CopySource": f"plain/{grid}"}),
        (s3.delete_bucket, {"Bucket": "plain"}),
    ]:
        assert code(call, **arguments) == "InvalidBucketState"
    door.esker("cont", "destroy", "tank", "plain", "--force")


def test_files_and_objects_are_the_same(door, s3, bucket, tmp_path):
    """Objects are files, and files are objects."""
    place = f"tank/{bucket}"
    s3.put_object(Bucket=bucket, Key="dir/by-s3", Body=b"from s3", Metadata={"k": "v"})
    assert door.esker("fs", "cat", f"{place}:/dir/by-s3") == b"from s3"
    (tmp_path / "by-fs").write_bytes(b"from a file")
    door.esker("fs", "import", tmp_path / "by-fs", f"{place}:/dir/by-fs")
    got = s3.get_object(Bucket=bucket, Key="dir/by-fs")
    assert got["Body"].read() == b"from a file"
    assert "-" in got["ETag"] and got["ETag"] == s3.head_object(Bucket=bucket, Key="dir/by-fs")["ETag"]
    assert s3.get_object(Bucket=bucket, Key="dir/by-fs", IfMatch=got["ETag"])["Body"].read() == b"from a file"
    listed = {found["Key"]: found["ETag"] for found in s3.list_objects_v2(Bucket=bucket)["Contents"]}
    assert listed["dir/by-fs"] == got["ETag"] and len(listed) == 2

    before = s3.head_object(Bucket=bucket, Key="dir/by-s3")
    (tmp_path / "by-s3").write_bytes(b"changed")
    door.esker("fs", "import", tmp_path / "by-s3", f"{place}:/dir/by-s3")
    after = s3.get_object(Bucket=bucket, Key="dir/by-s3")
    assert after["Body"].read() == b"changed" and after["ETag"] != before["ETag"]
    door.esker("fs", "mv", f"{place}:/dir/by-s3", f"{place}:/moved")
    assert s3.get_object(Bucket=bucket, Key="moved")["Body"].read() == b"changed"
    assert code(s3.head_object, Bucket=bucket, Key="dir/by-s3") == "404"


def test_esker_run_sees_objects(door, s3, bucket):
    """A program under `esker run` reads objects of S3, and S3 reads its files."""
    s3.put_object(Bucket=bucket, Key="in.txt", Body=b"3\n1\n2\n")
    door.esker("run", f"tank/{bucket}", "--", "sh", "-c", "sort /esker/in.txt > /esker/out.txt")
    assert s3.get_object(Bucket=bucket, Key="out.txt")["Body"].read() == b"1\n2\n3\n"


def test_gets_return_the_object_of_their_start(s3, bucket):
    """A get sends the object that existed at its start, even if it is replaced or deleted meanwhile."""
    old, new = noise(8 * MIB, 1), noise(8 * MIB, 2)
    s3.put_object(Bucket=bucket, Key="a", Body=old)
    first, second = (s3.get_object(Bucket=bucket, Key="a")["Body"] for _ in range(2))
    begun = first.read(10)
    s3.put_object(Bucket=bucket, Key="a", Body=new)
    assert begun + first.read() == old
    s3.delete_object(Bucket=bucket, Key="a")
    assert second.read() == old


def test_a_put_that_ends_early_leaves_nothing(s3, bucket):
    """A client that disconnects in the middle of a put changes nothing."""

    class Broken(io.BytesIO):
        def read(self, count=-1):
            if self.tell() > 2 * MIB:
                raise ConnectionError("the client is gone")
            return super().read(min(count, MIB) if count > 0 else MIB)

    body = Broken(noise(6 * MIB))
    with pytest.raises(Exception, match="gone"):
        s3.put_object(Bucket=bucket, Key="a", Body=body, ContentLength=6 * MIB)
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0


def test_help_shows_the_command(door):
    """The help explains the first steps."""
    text = door.esker("serve", "s3", "--help").decode()
    assert "--new-key" in text and "AWS_ENDPOINT_URL" in text


def test_keys_that_others_may_read_are_refused(door):
    """A key file with another mode than 0600 is refused."""
    open_keys = door.home / "open.keys"
    open_keys.write_text("A b\n")
    open_keys.chmod(0o644)
    with pytest.raises(subprocess.CalledProcessError) as error:
        door.esker("serve", "s3", "tank", "--keys", open_keys, "--listen", "localhost:0")
    assert b"chmod 600" in error.value.stderr
