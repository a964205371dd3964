# %% [markdown]
# # Spark writes Parquet by S3, pandas reads it by `esker://`, and a job reads it as files
#
# Needs pyspark 4.1, pandas, pyarrow, esker, and the libraries of `pom.xml` (`mvn dependency:copy-dependencies
# -DoutputDirectory=jars`). In another shell, a server:
#
#     esker pool create tank --size 4G
#     esker serve s3 tank --keys s3.keys --new-key
#
# and here, as in docs/howto/s3.md: AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.

# %%
import json
import os
import pathlib
import subprocess
import sys

import fsspec
import pandas
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

JARS = os.environ.get("SPARK_JARS", str(pathlib.Path(__file__).parent / "jars"))
POOL = os.environ.get("POOL", "tank")

# %% [markdown]
# The committer `magic` uploads each file in parts and completes all uploads when the job is done. Nothing is renamed, and
# readers see nothing of a failed job.

# %%
settings = {
    "spark.driver.extraClassPath": f"{JARS}/*",
    "spark.hadoop.fs.s3a.endpoint": os.environ["AWS_ENDPOINT_URL"],
    "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.fs.s3a.access.key": os.environ["AWS_ACCESS_KEY_ID"],
    "spark.hadoop.fs.s3a.secret.key": os.environ["AWS_SECRET_ACCESS_KEY"],
    "spark.hadoop.fs.s3a.committer.name": "magic",
    "spark.hadoop.fs.s3a.committer.magic.enabled": "true",
    "spark.hadoop.mapreduce.outputcommitter.factory.scheme.s3a": "org.apache.hadoop.fs.s3a.commit.S3ACommitterFactory",
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
}
builder = SparkSession.builder.master("local[2]").appName("parquet")
for name, value in settings.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

# %%
days = spark.range(0, 10_000).select("id", (F.col("id") % 5).cast("int").alias("day"), (F.col("id") * 0.5).alias("kelvin"))
days.write.mode("overwrite").partitionBy("day").parquet("s3a://home/observations")
back = spark.read.parquet("s3a://home/observations")
print(back.count(), back.where("day = 3").agg(F.sum("kelvin")).first()[0])  # prints 10000 5000500.0
spark.stop()

# %% [markdown]
# Objects that Spark has put are files: pandas reads them without the server.

# %%
frame = pandas.read_parquet(f"esker://{POOL}/home/observations")
print(len(frame), frame.kelvin.sum())  # prints 10000 24997500.0

# %% [markdown]
# The committer's own account of the job is beside them.

# %%
with fsspec.open(f"esker://{POOL}/home/observations/_SUCCESS") as file:
    print(json.load(file)["committer"])  # prints magic

# %% [markdown]
# A program that knows nothing of Esker reads them as well.

# %%
job = "import pyarrow.parquet as p; print(p.read_table('/esker/observations').num_rows)"
if not POOL.startswith("daos:"):  # `esker run` needs a pool of this machine
    subprocess.run(["esker", "run", f"{POOL}/home", "--", sys.executable, "-c", job], check=True)  # prints 10000
