"""The `rocketmq` source and sink with brokers that check signatures."""

import pathlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import trio

from rmqlab.client.config import ClientConfig
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer
from rmqlab.remoting.acl import Credentials
from tests.pipeline.conftest import Lab

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.long

ACCOUNTS = """\
accounts:
- accessKey: spark-account
  secretKey: secret-of-spark
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms: [guarded=PUB|SUB]
  groupPerms: [spark-readers=SUB]
"""
ACCOUNT = {"accessKey": "spark-account", "secretKey": "secret-of-spark"}
READER = {"groupId": "spark-readers"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A master that asks, and a topic with one message."""
    home = tmp_path_factory.mktemp("guarded")
    (home / "conf").mkdir()
    (home / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    settings = ("--set", "aclEnable=true", "--set", f"rocketmqHome={home}")
    lab = Lab(home, "--name", "guarded", "--slaves", "0", *settings)

    async def send_first() -> None:
        known = Credentials(ACCOUNT["accessKey"], ACCOUNT["secretKey"])
        async with open_client(ClientConfig(namesrv_addr=lab.namesrv_addr, credentials=known)) as client:
            await Producer(client, "tests").send(Message(topic="guarded", body=b"first"))

    trio.run(send_first)
    yield lab
    lab.run("down", "--name", "guarded")


def test_a_signed_account_writes_and_reads(spark: "SparkSession", guarded: Lab, tmp_path: pathlib.Path) -> None:
    options = {"nameServer": guarded.namesrv_addr, "topic": "guarded", **ACCOUNT}
    frame = spark.createDataFrame([("second",), ("third",)], "body string")
    frame.write.format("rocketmq").options(**options).mode("append").save()
    found = spark.read.format("rocketmq").options(**options, **READER).load()
    assert sorted(bytes(row.body) for row in found.collect()) == [b"first", b"second", b"third"]
    stream = spark.readStream.format("rocketmq").options(**options, **READER, startingOffsets="earliest").load()
    query = stream.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query.trigger(availableNow=True).start(str(tmp_path / "copied")).awaitTermination()
    assert spark.read.parquet(str(tmp_path / "copied")).count() == 3


@pytest.mark.parametrize(
    "account", [{}, {**ACCOUNT, "secretKey": "secret-of-another"}], ids=["nobody", "a wrong secret"]
)
def test_an_unauthorized_account_gets_an_acl_error(
    spark: "SparkSession", guarded: Lab, account: dict[str, str]
) -> None:
    from pyspark.errors import PySparkException

    options = {"nameServer": guarded.namesrv_addr, "topic": "guarded", **account}
    with pytest.raises(PySparkException, match="AclException"):
        spark.read.format("rocketmq").options(**options, **READER).load().count()
    with pytest.raises(PySparkException, match="AclException"):
        spark.createDataFrame([("x",)], "body string").write.format("rocketmq").options(**options).mode("append").save()
