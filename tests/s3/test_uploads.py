"""Multipart uploads, as boto3 asks for them."""

import hashlib
import io
import random

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

MIB = 1 << 20


def code(call, **arguments):
    """Return the code of a call's error."""
    with pytest.raises(ClientError) as error:
        call(**arguments)
    return error.value.response["Error"]["Code"]


def parts_of(sizes):
    """Return parts of these sizes."""
    return [random.Random(number).randbytes(size) for number, size in enumerate(sizes)]


def upload(s3, bucket, parts, numbers=None):
    """Upload parts; return the arguments that name the upload, and those that complete it."""
    begun = s3.create_multipart_upload(Bucket=bucket, Key="dir/a", ContentType="text/x", Metadata={"k": "v"}, Tagging="t=1")
    of = {"Bucket": bucket, "Key": "dir/a", "UploadId": begun["UploadId"]}
    done = []
    for number, part in zip(numbers or range(1, len(parts) + 1), parts):
        put = s3.upload_part(**of, PartNumber=number, Body=part)
        done.append({"PartNumber": number, "ETag": put["ETag"], "ChecksumCRC32": put["ChecksumCRC32"]})
    return of, done


def test_parts_become_visible_as_one(s3, bucket):
    """The object exists only after the upload is completed, with all parts."""
    parts = parts_of([5 * MIB, 6 * MIB + 1, 7])
    of, done = upload(s3, bucket, parts, [2, 5, 9])
    assert s3.list_objects_v2(Bucket=bucket)["KeyCount"] == 0
    assert [part["PartNumber"] for part in s3.list_parts(**of)["Parts"]] == [2, 5, 9]
    found = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert [(one["Key"], one["UploadId"]) for one in found] == [("dir/a", of["UploadId"])]
    answer = s3.complete_multipart_upload(**of, MultipartUpload={"Parts": done})
    md5 = hashlib.md5(b"".join(hashlib.md5(part).digest() for part in parts)).hexdigest()
    assert answer["ETag"] == f'"{md5}-3"'
    got = s3.get_object(Bucket=bucket, Key="dir/a")
    assert got["Body"].read() == b"".join(parts)
    assert (got["ETag"], got["ContentType"], got["Metadata"], got["TagCount"]) == (answer["ETag"], "text/x", {"k": "v"}, 1)
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    # A client without an answer repeats the request.
    assert s3.complete_multipart_upload(**of, MultipartUpload={"Parts": done})["ETag"] == answer["ETag"]


def test_parts_of_a_complete_object(s3, bucket):
    """A get or head of one part returns the number of parts; attributes list them with sizes and checksums."""
    parts = parts_of([5 * MIB, 5 * MIB, 6 * MIB + 1, 7])
    numbers = [2, 3, 5, 9]
    of, done = upload(s3, bucket, parts, numbers)
    s3.complete_multipart_upload(**of, MultipartUpload={"Parts": done})
    name = {"Bucket": bucket, "Key": "dir/a"}
    for number, part in zip(numbers, parts):
        head = s3.head_object(**name, PartNumber=number)
        got = s3.get_object(**name, PartNumber=number)
        assert got["Body"].read() == part
        for answer in head, got:
            assert (answer["PartsCount"], answer["ContentLength"]) == (4, len(part))
            assert answer["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert got["ContentRange"] == f"bytes {16 * MIB + 1}-{16 * MIB + 7}/{16 * MIB + 8}"
    assert code(s3.get_object, **name, PartNumber=4) == "InvalidPart"
    assert code(s3.get_object, **name, PartNumber=2, Range="bytes=0-1") == "InvalidRequest"
    assert "PartsCount" not in s3.head_object(**name)
    asked = {**name, "ObjectAttributes": ["ObjectParts", "ObjectSize"]}
    found = s3.get_object_attributes(**asked)["ObjectParts"]
    assert (found["TotalPartsCount"], found["IsTruncated"]) == (4, False)
    assert [(part["PartNumber"], part["Size"]) for part in found["Parts"]] == list(zip(numbers, map(len, parts)))
    sums = {part["PartNumber"]: part["ChecksumCRC32"] for part in done}
    assert {part["PartNumber"]: part["ChecksumCRC32"] for part in found["Parts"]} == sums
    page = s3.get_object_attributes(**asked, MaxParts=1, PartNumberMarker=3)["ObjectParts"]
    assert [part["PartNumber"] for part in page["Parts"]] == [5]
    assert (page["IsTruncated"], page["NextPartNumberMarker"], page["PartNumberMarker"]) == (True, 5, 3)
    # A copy is an object that was put at once.
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=name)
    copy = {"Bucket": bucket, "Key": "copy"}
    assert "PartsCount" not in s3.head_object(**copy, PartNumber=1)
    assert code(s3.get_object, **copy, PartNumber=2) == "InvalidPart"
    assert "ObjectParts" not in s3.get_object_attributes(**copy, ObjectAttributes=["ObjectParts"])


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_a_completed_upload_has_the_checksum_that_it_was_begun_with(s3, bucket, algorithm):
    """The checksum covers the content, or the checksums of the parts. Clients can send either on completion."""
    parts, field = parts_of([5 * MIB, 6]), f"Checksum{algorithm}"
    name = {"Bucket": bucket, "Key": "a"}
    whole = s3.put_object(**name, Body=b"".join(parts), ChecksumAlgorithm=algorithm)[field]
    kinds = {"CRC64NVME": ["FULL_OBJECT"], "SHA1": ["COMPOSITE"], "SHA256": ["COMPOSITE"]}
    for kind in kinds.get(algorithm, ["COMPOSITE", "FULL_OBJECT"]):
        begun = s3.create_multipart_upload(**name, ChecksumAlgorithm=algorithm, ChecksumType=kind)
        assert (begun["ChecksumAlgorithm"], begun["ChecksumType"]) == (algorithm, kind)
        of, done = {**name, "UploadId": begun["UploadId"]}, []
        for number, part in enumerate(parts, 1):
            put = s3.upload_part(**of, PartNumber=number, Body=part, ChecksumAlgorithm=algorithm)
            done.append({"PartNumber": number, "ETag": put["ETag"], field: put[field]})
        answer = s3.complete_multipart_upload(**of, MultipartUpload={"Parts": done})
        assert answer[field] == whole if kind == "FULL_OBJECT" else answer[field].endswith("-2")
        shown = s3.head_object(**name, ChecksumMode="ENABLED")
        listed = s3.get_object_attributes(**name, ObjectAttributes=["Checksum", "ETag"])
        assert listed["ETag"] == answer["ETag"].strip('"')
        for found in answer, shown, listed["Checksum"], s3.complete_multipart_upload(**of, MultipartUpload={"Parts": done}):
            assert (found[field], found["ChecksumType"]) == (answer[field], kind)
        assert field not in s3.head_object(**name, ChecksumMode="DISABLED")
        got = s3.get_object(**name, PartNumber=2, ChecksumMode="ENABLED")
        assert (got["Body"].read(), got[field], got["ChecksumType"]) == (parts[1], done[1][field], kind)
    wrong = "COMPOSITE" if algorithm == "CRC64NVME" else "FULL_OBJECT"
    if wrong not in kinds.get(algorithm, [wrong]):
        refused = {**name, "ChecksumAlgorithm": algorithm, "ChecksumType": wrong}
        assert code(s3.create_multipart_upload, **refused) == "InvalidRequest"
    assert code(s3.create_multipart_upload, **name, ChecksumType="COMPOSITE") == "InvalidRequest"


def test_parts_can_be_replaced_and_left_out(s3, bucket):
    """The last upload of a part counts, and only named parts count."""
    one, two, three = parts_of([5 * MIB, 5 * MIB, 5 * MIB])
    of, done = upload(s3, bucket, [one, two, three])
    again = s3.upload_part(**of, PartNumber=2, Body=three)
    wrong = [done[0], done[1]]
    assert code(s3.complete_multipart_upload, **of, MultipartUpload={"Parts": wrong}) == "InvalidPart"
    chosen = [done[0], {"PartNumber": 2, "ETag": again["ETag"]}]
    s3.complete_multipart_upload(**of, MultipartUpload={"Parts": chosen})
    assert s3.get_object(Bucket=bucket, Key="dir/a")["Body"].read() == one + three


def test_invalid_uploads_cannot_be_completed(s3, bucket):
    """Parts that are too small, out of order or missing are refused, and the upload stays."""
    of, done = upload(s3, bucket, parts_of([10, 10]))

    def complete(parts):
        return code(s3.complete_multipart_upload, **of, MultipartUpload={"Parts": parts})

    assert complete(done) == "EntityTooSmall"
    assert complete(done[::-1]) == "InvalidPartOrder"
    assert complete([{**done[0], "PartNumber": 7}]) == "InvalidPart"
    assert code(s3.upload_part, **{**of, "PartNumber": 10001, "Body": b""}) == "InvalidArgument"
    assert len(s3.list_parts(**of)["Parts"]) == 2
    assert len(s3.list_parts(**of, MaxParts=1)["Parts"]) == 1
    s3.abort_multipart_upload(**of)
    assert code(s3.abort_multipart_upload, **of) == "NoSuchUpload"
    assert code(s3.upload_part, **of, PartNumber=1, Body=b"") == "NoSuchUpload"
    assert complete(done) == "NoSuchUpload"


def test_uploads_are_completed_on_conditions(s3, bucket):
    """An upload with a condition does not replace an existing object."""
    s3.put_object(Bucket=bucket, Key="dir/a", Body=b"before")
    of, done = upload(s3, bucket, parts_of([7]))
    wanted = {**of, "MultipartUpload": {"Parts": done}}
    assert code(s3.complete_multipart_upload, **wanted, IfNoneMatch="*") == "PreconditionFailed"
    assert s3.get_object(Bucket=bucket, Key="dir/a")["Body"].read() == b"before"
    s3.complete_multipart_upload(**wanted)
    assert s3.get_object(Bucket=bucket, Key="dir/a")["Body"].read() == parts_of([7])[0]


def test_parts_are_copied_from_objects(s3, bucket):
    """A part may be a range of an object."""
    content = random.Random(3).randbytes(12 * MIB)
    s3.put_object(Bucket=bucket, Key="source", Body=content)
    begun = s3.create_multipart_upload(Bucket=bucket, Key="a")
    of = {"Bucket": bucket, "Key": "a", "UploadId": begun["UploadId"]}
    source, done = {"Bucket": bucket, "Key": "source"}, []
    for number, range in [(1, f"bytes=0-{6 * MIB - 1}"), (2, f"bytes={6 * MIB}-{12 * MIB - 1}")]:
        copied = s3.upload_part_copy(**of, PartNumber=number, CopySource=source, CopySourceRange=range)
        done.append({"PartNumber": number, "ETag": copied["CopyPartResult"]["ETag"]})
    s3.complete_multipart_upload(**of, MultipartUpload={"Parts": done})
    assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == content


def test_files_are_uploaded_in_parallel(s3, bucket):
    """Files that boto3 uploads in threads are the same when it downloads them in threads."""
    content = random.Random(4).randbytes(40 * MIB + 3)
    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=4)
    s3.upload_fileobj(io.BytesIO(content), bucket, "big", Config=config)
    assert s3.head_object(Bucket=bucket, Key="big")["ETag"].endswith('-9"')
    got = io.BytesIO()
    s3.download_fileobj(bucket, "big", got, Config=config)
    assert got.getvalue() == content
