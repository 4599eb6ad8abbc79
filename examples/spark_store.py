"""Read a RocketMQ store from its files: a real broker's or ours, running or not.

pip install '/path/to/rmqlab[spark]'
python examples/spark_store.py ~/store                # or a directory with one store for each node
"""

import argparse
from pathlib import Path

from pyspark.sql import functions as sf

from rmqlab.pipeline.session import open_session

arguments = argparse.ArgumentParser()
arguments.add_argument("store", help="a store's directory, or one with a directory for each node")
given = arguments.parse_args()
if not Path(given.store).is_dir():
    arguments.error(f"{given.store} is not a directory")

with open_session("local[*]") as spark:
    records = spark.read.format("rocketmq-store").load(given.store)

    print("Records by node and state: torn or badCrc means damage")
    records.groupBy("node", "state").count().orderBy("node", "state").show(truncate=False)

    print("Topics")
    records.filter("state = 'ok'").groupBy("node", "topic").agg(
        sf.count("*").alias("messages"), sf.sum("storeSize").alias("bytes"), sf.max("storeTimestamp").alias("latest")
    ).orderBy("node", "topic").show(100, truncate=False)

    print("Messages that were stored more than once: a producer tried again after a time-out")
    records.filter("uniqKey is not null and topic not like 'RMQ_SYS%' and topic not like '\\%%'").groupBy(
        "node", "topic", "uniqKey"
    ).count().filter("count > 1").orderBy("node", "topic", "uniqKey").show(20, truncate=False)
