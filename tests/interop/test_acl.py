"""Access control: signing and unsigned clients at a broker that checks signatures."""

from collections.abc import Iterator

import pytest
import trio

from rmqlab.client.config import ClientConfig
from rmqlab.client.errors import RefusedError
from rmqlab.client.instance import open_client
from rmqlab.client.message import Message
from rmqlab.client.producer import Producer
from rmqlab.remoting.acl import Credentials
from tests.interop.conftest import SYSTEMS
from tests.interop.java import CLIENTS, Java
from tests.interop.lonemaster import lone_master
from tests.interop.server import BrokerServer

pytestmark = [pytest.mark.interop, pytest.mark.long]

_ACCOUNTS = """\
globalWhiteRemoteAddresses: []
accounts:
- accessKey: alice-writes
  secretKey: secret-of-alice
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: DENY
  topicPerms:
  - Guarded=PUB|SUB
  groupPerms:
  - guarded-readers=SUB
"""
ALICE = ["accessKey=alice-writes", "secretKey=secret-of-alice"]
MALLORY = ["accessKey=alice-writes", "secretKey=secret-of-mallory"]


@pytest.fixture(scope="module", params=SYSTEMS)
def guarded(
    request: pytest.FixtureRequest, java: Java, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[BrokerServer]:
    home = java.directory / "rocketmq"  # where real brokers that check nothing look, too: those do not read it
    (home / "conf" / "plain_acl.yml").write_text(_ACCOUNTS)
    settings = {"aclEnable": "true", "rocketmqHome": str(home)}
    with lone_master(request.param, java, tmp_path_factory.mktemp("acl"), settings) as broker:
        yield broker


@pytest.mark.parametrize("line", CLIENTS)
def test_a_java_client_that_signs_may_do_what_its_account_may(java: Java, guarded: BrokerServer, line: str) -> None:
    target = [f"namesrv={guarded.namesrv}", "topic=Guarded", "count=3", *ALICE]
    with java.start("Producer", *target, f"prefix=m{line}", client=line) as producer:
        assert [row.split()[0] for row in producer.finish()] == ["SEND_OK"] * 3
    with java.start("Consumer", *target, "group=guarded-readers", client=line) as consumer:
        _, *received = consumer.finish()
    assert {f"m{line}-{number}" for number in range(3)} <= {row.split()[-1] for row in received}


@pytest.mark.parametrize("account", [MALLORY, []], ids=["wrong secret", "none"])
def test_a_java_client_with_a_wrong_signature_is_refused(java: Java, guarded: BrokerServer, account: list[str]) -> None:
    target = [f"namesrv={guarded.namesrv}", "topic=Guarded", "count=1"]
    with java.start("Producer", *target, *account) as producer:
        assert producer.wait_exit(60) == 3
    assert producer.lines[-1].startswith("FAILED")  # the exception's own text names no reason, only its cause does


@pytest.mark.parametrize(
    ("secret", "topic", "is_allowed"),
    [
        ("secret-of-alice", "Guarded", True),
        ("secret-of-mallory", "Guarded", False),
        ("secret-of-alice", "Other", False),
    ],
)
def test_our_client_signs_as_javas(guarded: BrokerServer, secret: str, topic: str, is_allowed: bool) -> None:  # noqa: FBT001 - a column of the table
    async def send() -> None:
        config = ClientConfig(namesrv_addr=guarded.namesrv, credentials=Credentials("alice-writes", secret))
        async with open_client(config) as client:
            await Producer(client, "python").send(Message(topic=topic, body=b"x"))

    if is_allowed:
        trio.run(send)
    else:
        with pytest.raises(RefusedError, match="AclException"):
            trio.run(send)
