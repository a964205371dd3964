"""Listings in both versions, as boto3 asks for them."""

import random

import pytest
from botocore.exceptions import ClientError

KEYS = ["a", "a-b/x", "a.txt", "b/c/d", "b/c.x", "b!", "b+1 2&<>", "z/y/x/w", "\u00fc/\u6f22", "B/", "%41"]


@pytest.fixture
def filled(s3, bucket):
    """Return a bucket with all keys."""
    for key in KEYS:
        s3.put_object(Bucket=bucket, Key=key, Body=b"x" if not key.endswith("/") else b"")
    return bucket


def model(prefix="", delimiter=None):
    """Return the expected listing of the sorted keys."""
    shown = []
    for key in sorted(KEYS, key=str.encode):
        if key.startswith(prefix):
            at = key.find(delimiter, len(prefix)) if delimiter else -1
            line = key if at < 0 else key[: at + len(delimiter)]
            shown += [line] if not shown or shown[-1] != line else []
    return shown


def lines(page):
    """Return keys and prefixes of a page, in order."""
    found = [one["Key"] for one in page.get("Contents", [])]
    found += [one["Prefix"] for one in page.get("CommonPrefixes", [])]
    return sorted(found, key=str.encode)


@pytest.mark.parametrize("version", ["list_objects", "list_objects_v2"])
@pytest.mark.parametrize("delimiter", [None, "/", "-", "."])
@pytest.mark.parametrize("prefix", ["", "a", "b/", "b/c", "none", "\u00fc/", "/", "//", "../", "x" * 300 + "/"])
def test_pages_are_those_of_sorted_keys(s3, filled, version, delimiter, prefix):
    """All pages together show each key once, in order, with any prefix, delimiter and length of pages."""
    for count in [1, 2, 1000]:
        more = {"Delimiter": delimiter} if delimiter else {}
        pages = s3.get_paginator(version).paginate(Bucket=filled, Prefix=prefix, **more, PaginationConfig={"PageSize": count})
        found = []
        for page in pages:
            shown = lines(page)
            assert len(shown) <= count
            found += shown
        assert found == model(prefix, delimiter)


def test_a_listing_starts_after_a_key(s3, filled):
    """Keys up to a given one are left out, whether or not it exists."""
    for after in ["a", "a/", "b/c", "b/c.", "zz", "b/c/d"]:
        expected = [key for key in model() if key.encode() > after.encode()]
        assert lines(s3.list_objects_v2(Bucket=filled, StartAfter=after)) == expected
        assert lines(s3.list_objects(Bucket=filled, Marker=after)) == expected
    inside = s3.list_objects_v2(Bucket=filled, StartAfter="b/c", Delimiter="/")
    assert "b/" in lines(inside)
    behind = s3.list_objects_v2(Bucket=filled, StartAfter="b/zz", Delimiter="/")
    assert "b/" not in lines(behind)


def test_a_page_may_be_empty(s3, filled):
    """A page may be empty; invalid arguments are refused."""
    page = s3.list_objects_v2(Bucket=filled, FetchOwner=True)
    assert all(one["Owner"]["ID"] for one in page["Contents"])
    page = s3.list_objects_v2(Bucket=filled, MaxKeys=0)
    assert (page["KeyCount"], page["IsTruncated"]) == (0, False)
    with pytest.raises(ClientError, match="InvalidArgument"):
        s3.list_objects_v2(Bucket=filled, ContinuationToken="nonsense")


def test_a_directory_of_many_files(s3, bucket):
    """More keys than a page holds are listed page by page."""
    keys = [f"many/{number:05}" for number in range(1500)]
    shuffled = list(keys)
    random.Random(1).shuffle(shuffled)
    for key in shuffled:
        s3.put_object(Bucket=bucket, Key=key, Body=b"")
    pages = list(s3.get_paginator("list_objects_v2").paginate(Bucket=bucket))
    assert [len(page["Contents"]) for page in pages] == [1000, 500]
    assert [one["Key"] for page in pages for one in page["Contents"]] == keys


def test_each_object_is_its_only_version(s3, filled):
    """A bucket without versions shows each object as the version null, which can be got and deleted."""
    found = []
    for page in s3.get_paginator("list_object_versions").paginate(Bucket=filled, PaginationConfig={"PageSize": 3}):
        found += [(one["Key"], one["VersionId"], one["IsLatest"]) for one in page["Versions"]]
    assert found == [(key, "null", True) for key in model()]
    assert s3.get_object(Bucket=filled, Key="a", VersionId="null")["Body"].read() == b"x"
    s3.delete_object(Bucket=filled, Key="a", VersionId="null")
    assert "a" not in lines(s3.list_objects_v2(Bucket=filled))
