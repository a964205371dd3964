"""Other clients: awscli, s3fs, pandas, pyarrow, DuckDB and obstore."""

import pathlib
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import duckdb
import obstore.exceptions
import pandas
import pyarrow
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest
import s3fs
from obstore.store import S3Store

MIB = 1 << 20


@pytest.fixture
def tree(tmp_path):
    """Return a folder with files, small and large."""
    for number, size in enumerate([0, 1, 1000, 9 * MIB]):
        file = tmp_path / "tree" / f"d{number % 2}" / f"f{number}"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(random.Random(number).randbytes(size))
    return tmp_path / "tree"


@pytest.fixture
def frame():
    """Return a table."""
    return pandas.DataFrame({"step": range(1000), "value": [n / 7 for n in range(1000)], "kind": ["a", "b"] * 500})


@pytest.fixture
def arrow(door):
    """Return pyarrow's file system of S3."""
    return pyarrow.fs.S3FileSystem(
        access_key="WRITER",
        secret_key="secret",
        endpoint_override=door.url.removeprefix("http://"),
        scheme="http",
        region="us-east-1",
    )


@pytest.fixture
def options(door):
    """Return the options of s3fs."""
    return {
        "key": "WRITER",
        "secret": "secret",
        "client_kwargs": {"endpoint_url": door.url, "region_name": "us-east-1"},
        "skip_instance_cache": True,
    }


def contents(folder):
    """Return the files of a folder by their relative paths."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_awscli(door, bucket, tree, tmp_path, monkeypatch):
    """`aws s3` copies, synchronizes, lists, moves and removes trees."""
    aws = pathlib.Path(sys.executable).parent / "aws"
    for name, value in {
        "AWS_ENDPOINT_URL": door.url,
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "WRITER",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        monkeypatch.setenv(name, value)

    def s3(*words):
        return subprocess.run([sys.executable, aws, "s3", *words], check=True, capture_output=True, text=True).stdout

    s3("sync", tree, f"s3://{bucket}/tree")
    assert s3("sync", tree, f"s3://{bucket}/tree") == ""
    assert len(s3("ls", "--recursive", f"s3://{bucket}/tree/").splitlines()) == 4
    assert s3("ls", f"s3://{bucket}/tree/").split() == ["PRE", "d0/", "PRE", "d1/"]
    s3("mv", f"s3://{bucket}/tree/d1/f3", f"s3://{bucket}/tree/d1/moved")
    s3("cp", "--recursive", f"s3://{bucket}/tree", tmp_path / "back")
    before, back = contents(tree), contents(tmp_path / "back")
    before["d1/moved"] = before.pop("d1/f3")
    assert back == before
    s3("rm", "--recursive", f"s3://{bucket}/tree")
    assert s3("ls", f"s3://{bucket}") == ""


def test_s3fs(bucket, options, tree, tmp_path):
    """s3fs puts, lists, opens, moves and removes."""
    fs = s3fs.S3FileSystem(**options)
    fs.put(str(tree), f"{bucket}/tree", recursive=True)
    assert sorted(fs.find(f"{bucket}/tree")) == [f"{bucket}/tree/{name}" for name in sorted(contents(tree))]
    with fs.open(f"{bucket}/tree/d1/f3", "rb") as file:
        file.seek(5 * MIB)
        assert file.read(100) == contents(tree)["d1/f3"][5 * MIB : 5 * MIB + 100]
    with fs.open(f"{bucket}/written", "wb", block_size=5 * MIB) as file:
        for _ in range(12):
            file.write(b"x" * MIB)
    assert fs.size(f"{bucket}/written") == 12 * MIB
    fs.mv(f"{bucket}/written", f"{bucket}/moved")
    assert fs.exists(f"{bucket}/moved") and not fs.exists(f"{bucket}/written")
    fs.get(f"{bucket}/tree", str(tmp_path / "back"), recursive=True)
    assert contents(tmp_path / "back") == contents(tree)
    fs.rm(f"{bucket}/tree", recursive=True)
    assert fs.find(bucket) == [f"{bucket}/moved"]


def test_pandas_and_esker_see_the_same(door, bucket, options, frame, tmp_path):
    """A table that pandas writes over S3 is a file."""
    frame.to_parquet(f"s3://{bucket}/tables/frame.parquet", storage_options=options)
    assert pandas.read_parquet(f"s3://{bucket}/tables/frame.parquet", storage_options=options).equals(frame)
    door.esker("fs", "export", f"{door.pool}/{bucket}:/tables/frame.parquet", tmp_path / "frame.parquet")
    assert pandas.read_parquet(tmp_path / "frame.parquet").equals(frame)


def test_pyarrow(bucket, arrow, frame):
    """pyarrow writes a dataset in parts, finds it again, and deletes it."""
    table = pyarrow.Table.from_pandas(frame)
    pyarrow.dataset.write_dataset(table, f"{bucket}/set", format="parquet", partitioning=["kind"], partitioning_flavor="hive", filesystem=arrow)
    found = pyarrow.dataset.dataset(f"{bucket}/set", format="parquet", partitioning="hive", filesystem=arrow)
    assert found.count_rows() == len(frame)
    assert found.to_table(filter=pyarrow.dataset.field("kind") == "a").num_rows == 500
    with arrow.open_output_stream(f"{bucket}/big") as stream:
        for _ in range(25):
            stream.write(b"y" * MIB)
    assert arrow.get_file_info(f"{bucket}/big").size == 25 * MIB
    arrow.delete_dir(f"{bucket}/set")
    assert arrow.get_file_info(f"{bucket}/set").type == pyarrow.fs.FileType.NotFound


def test_duckdb(door, bucket, arrow, frame):
    """DuckDB reads files by a pattern, and writes one."""
    database = duckdb.connect()
    try:
        database.install_extension("httpfs")
        database.load_extension("httpfs")
    except duckdb.Error as error:
        pytest.skip(f"DuckDB's extension httpfs cannot be had here: {str(error).splitlines()[0]}")
    for number in range(3):
        with arrow.open_output_stream(f"{bucket}/duck/{number}.parquet") as stream:
            pyarrow.parquet.write_table(pyarrow.Table.from_pandas(frame), stream)
    endpoint = door.url.removeprefix("http://")
    database.execute(f"CREATE SECRET (TYPE s3, KEY_ID 'WRITER', SECRET 'secret', REGION 'us-east-1', ENDPOINT '{endpoint}', URL_STYLE 'path', USE_SSL false)")
    where = f"'s3://{bucket}/duck/*.parquet'"
    assert database.execute(f"SELECT count(*), max(step) FROM {where}").fetchone() == (3000, 999)
    database.execute(f"COPY (SELECT * FROM {where}) TO 's3://{bucket}/copied.parquet'")
    assert database.execute(f"SELECT count(*) FROM 's3://{bucket}/copied.parquet'").fetchone() == (3000,)


@pytest.fixture
def store(door, bucket):
    """Return obstore's store, whose client delta-rs, polars and Lance use, too."""
    return S3Store(
        bucket,
        endpoint=door.url,
        access_key_id="WRITER",
        secret_access_key="secret",
        region="us-east-1",
        copy_if_not_exists="multipart",
        client_options={"allow_http": True},
    )


def test_obstore(store):
    """obstore puts in parts, reads ranges, lists from an offset, copies and renames without overwriting."""
    data = random.Random(1).randbytes(12 * MIB)
    store.put("a/big", data, chunk_size=5 * MIB)
    assert bytes(store.get("a/big").bytes()) == data
    assert [bytes(part) for part in store.get_ranges("a/big", starts=[0, 9 * MIB], lengths=[5, 7])] == [data[:5], data[9 * MIB : 9 * MIB + 7]]
    store.copy("a/big", "a/copy", overwrite=False)
    with pytest.raises(obstore.exceptions.AlreadyExistsError):
        store.copy("a/big", "a/copy", overwrite=False)
    store.rename("a/copy", "b/moved", overwrite=False)
    assert bytes(store.get("b/moved").bytes()) == data
    names = [f"c/{name}" for name in ["plain", "blank in", "plus+", "percent%20", "uml\u00e4ut", "q?m", "hash#"]]
    for name in names:
        store.put(name, name.encode())
        assert bytes(store.get(name).bytes()) == name.encode()
    listed = [found["path"] for page in store.list("c", offset="c/percent%20") for found in page]
    assert listed == sorted(name for name in names if name > "c/percent%20")
    store.delete(names)
    assert store.list_with_delimiter()["common_prefixes"] == ["a", "b"]


def test_conditional_puts_of_obstore(store):
    """One of several writers creates an object, and no change on a condition is lost."""

    def create(number):
        try:
            store.put("once", str(number).encode(), mode="create")
        except obstore.exceptions.AlreadyExistsError:
            return []
        return [number]

    def count(_):
        done = 0
        while done < 5:
            found = store.get("count")
            following = str(int(bytes(found.bytes())) + 1).encode()
            try:
                store.put("count", following, mode={"e_tag": found.meta["e_tag"]})
                done += 1
            except obstore.exceptions.PreconditionError:
                pass

    with ThreadPoolExecutor(8) as pool:
        winners = sum(pool.map(create, range(32)), [])
        assert len(winners) == 1 and bytes(store.get("once").bytes()) == str(winners[0]).encode()
        store.put("count", b"0")
        list(pool.map(count, range(8)))
    assert bytes(store.get("count").bytes()) == b"40"
