"""Spark with s3a, as examples/spark uses it: a session of its own writes and reads, and the committer renames nothing."""

import os
import pathlib
import subprocess
import tempfile

import pytest
from conftest import Door

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples/spark/parquet.py"
PYTHON = os.environ.get("ESKER_SPARK_PYTHON")


@pytest.mark.skipif(not PYTHON, reason="Spark needs java and mvn, and ESKER_SPARK is not to be none (scripts/s3.sh)")
def test_pandas_and_a_job_read_files_of_spark():
    """The example prints the output in its comments."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as home, Door(pathlib.Path(home)) as door:
        door.start()
        s3 = door.client()
        s3.create_bucket(Bucket="home")
        environment = {
            **door.environment,
            "AWS_ENDPOINT_URL": door.url,
            "AWS_ACCESS_KEY_ID": "WRITER",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "PATH": f"{pathlib.Path(os.environ['ESKER']).parent}:{os.environ['PATH']}",
        }
        done = subprocess.run([PYTHON, EXAMPLE], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr
        expected = [line.split("# prints ")[1] for line in EXAMPLE.read_text().splitlines() if "# prints " in line]
        assert done.stdout.splitlines() == expected
        keys = [found["Key"] for found in s3.list_objects_v2(Bucket="home")["Contents"]]
        assert len([key for key in keys if key.endswith(".parquet")]) >= 5
        assert not [key for key in keys if "__magic" in key or "_temporary" in key]
        assert door.stop() == 0
