"""Count a live topic in windows of a second while the master dies.

The counts are written to another topic, as a stream.

    pip install '/path/to/rmqlab[spark]'
    rmqlab up --detach && rmqlab produce --topic orders &
    NAMESRV_ADDR=127.77.149.1:9876 python examples/spark_stream.py orders counts --seconds 60
    rmqlab kill broker-a:master           # in between: the stream reads on from the slave; what it writes waits
    rmqlab start broker-a:master

Ctrl-C ends it earlier. Each cell (`# %%`) can be run by itself in an editor that knows them.
"""

# %% What to read, and where to write
import argparse
import contextlib
import os
import tempfile

from pyspark.sql.functions import window

from rmqlab.pipeline.session import open_session

arguments = argparse.ArgumentParser()
arguments.add_argument("source")
arguments.add_argument("target")
arguments.add_argument("--seconds", type=float, default=30.0)
arguments.add_argument("--from", dest="start", choices=("earliest", "latest"), default="latest")
arguments.add_argument("--late", type=int, default=1, help="seconds that a message may come after later ones")
given = arguments.parse_args()
server = os.environ.get("NAMESRV_ADDR", "")
if not server:
    arguments.error("NAMESRV_ADDR is not set: expected the addresses that `rmqlab up` prints")

# %% A stream from a topic, counted by second and broker
with open_session("local[2]") as spark, tempfile.TemporaryDirectory() as checkpoint:
    orders = (
        spark.readStream.format("rocketmq")
        .option("nameServer", server)
        .option("topic", given.source)
        .option("startingOffsets", given.start)
        .load()
    )
    counts = (
        orders.withWatermark("storeTimestamp", f"{given.late} seconds")
        .groupBy(window("storeTimestamp", "1 second"), "broker")
        .count()
        .selectExpr("to_json(named_struct('at', window.start, 'broker', broker, 'orders', count)) body", "broker keys")
    )

    # %% ... into another topic: at least once, with an id per row by which repeats can be found
    query = (
        counts.writeStream.format("rocketmq")
        .option("nameServer", server)
        .option("topic", given.target)
        .option("checkpointLocation", checkpoint)
        .outputMode("append")  # Spark lets no Python sink update: a window is written once, when it is over
        .trigger(processingTime="1 second")
        .start()
    )
    with contextlib.suppress(KeyboardInterrupt):
        query.awaitTermination(given.seconds)
    query.stop()

    # %% What has been written
    written = spark.read.format("rocketmq").option("nameServer", server).option("topic", given.target).load()
    once = written.selectExpr("cast(body as string) body", "properties['SPARK_ID'] row").dropDuplicates(["row"])
    for row in once.orderBy("body").collect():
        print(row.body)
