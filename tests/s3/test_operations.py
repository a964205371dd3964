"""Every operation of botocore's model is supported, or refused without a change."""

import botocore.handlers
import pytest
from botocore.exceptions import ClientError

OFFERED = {
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateBucket",
    "CreateMultipartUpload",
    "DeleteBucket",
    "DeleteObject",
    "DeleteObjectTagging",
    "DeleteObjects",
    "GetBucketLocation",
    "GetBucketVersioning",
    "GetObject",
    "GetObjectAttributes",
    "GetObjectTagging",
    "HeadBucket",
    "HeadObject",
    "ListBuckets",
    "ListMultipartUploads",
    "ListObjectVersions",
    "ListObjects",
    "ListObjectsV2",
    "ListParts",
    "PutObject",
    "PutObjectTagging",
    "UploadPart",
    "UploadPartCopy",
}

# Operations that botocore signs for another service than S3.
ELSEWHERE = {"CreateSession", "ListDirectoryBuckets", "WriteGetObjectResponse"}


def example(shape, name, depth=0):
    """Return a value of a shape, with its required members."""
    if shape.type_name == "structure":
        members = shape.required_members or (list(shape.members)[:1] if depth < 4 else [])
        return {member: example(shape.members[member], member, depth + 1) for member in members}
    if shape.type_name == "list":
        return [example(shape.member, name, depth + 1)]
    if shape.type_name == "map":
        return {"a": example(shape.value, name, depth + 1)}
    if shape.type_name == "string":
        return shape.enum[0] if shape.enum else "a" * max(1, shape.metadata.get("min", 1))
    values = {"blob": b"a", "boolean": True, "timestamp": 0, "integer": 1, "long": 1, "float": 1.0, "double": 1.0}
    return values[shape.type_name]


def test_every_operation_of_the_model(door, bucket):
    """An unsupported operation is answered NotImplemented, and no object or bucket changes."""
    s3 = door.client(inject_host_prefix=False)
    s3.meta.events.unregister("before-parameter-build.s3", botocore.handlers.validate_bucket_name)
    s3.put_object(Bucket=bucket, Key="a", Body=b"content")
    model = s3.meta.service_model
    refused = [name for name in model.operation_names if name not in OFFERED]
    assert len(refused) > 60 and OFFERED <= set(model.operation_names)
    for name in refused:
        operation = model.operation_model(name)
        arguments = example(operation.input_shape, name)
        arguments |= {"Bucket": bucket} if "Bucket" in operation.input_shape.members else {}
        arguments |= {"Key": "a"} if "Key" in operation.input_shape.members else {}
        with pytest.raises(ClientError) as error:
            s3._make_api_call(name, arguments)
        codes = {"NotImplemented", "501"} | ({"AuthorizationHeaderMalformed"} if name in ELSEWHERE else set())
        assert error.value.response["Error"]["Code"] in codes, name
        assert s3.get_object(Bucket=bucket, Key="a")["Body"].read() == b"content", name
