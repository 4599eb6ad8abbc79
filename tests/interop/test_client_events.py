"""What a master sends to its clients, and when: ours and a real one.

Each flow is played at both masters at the same time, over plain sockets, and notes outcomes. Both lists must be equal.
The requests are those that showed differences, and their neighbours.
"""

import contextlib
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from rmqlab.remoting.message import decode_message, parse_offset_message_id
from tests.interop.differential.wire import JSON, Command, Connection, frame, json_header
from tests.interop.java import Java
from tests.interop.lonemaster import lone_master

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

PATIENCE = 20.0
"""Seconds for a reply."""
QUIET = 0.5
"""Seconds after which no further request of a broker is expected."""
_NO_OPAQUE = -1
_numbers = itertools.count(1)

Note = Callable[[object], None]
Flow = Callable[["Peer", "Peer", Note], None]


class Peer(Connection):
    """A client."""

    seen = 0

    def fire(self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> int:
        """Send a request; return its opaque."""
        number = next(_numbers)
        self.send(frame(JSON, json_header(code, number, fields), body))
        return number

    def ask(self, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"") -> Command:
        reply = self.wait(self.fire(code, fields, body), PATIENCE)
        assert reply is not None, f"no reply to {code}"
        return reply

    def pushed(self, quiet: float = QUIET) -> list[Command]:
        """Return the requests of the broker since the last call."""
        self.wait(_NO_OPAQUE, quiet)
        new, self.seen = self.asked[self.seen :], len(self.asked)
        return new

    def beat(self, client_id: str, group: str = "", *topics: str, producer: str | None = None) -> int:
        """Send a heartbeat of a consumer or of a producer; return the code of its reply."""
        subscriptions = [{"topic": topic, "subString": "*", "subVersion": 1} for topic in topics]
        kind = {"consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}
        consumers = [{"groupName": group, **kind, "subscriptionDataSet": subscriptions}] if group else []
        producers = [] if producer is None else [{"groupName": producer}]
        body = {"clientID": client_id, "consumerDataSet": consumers, "producerDataSet": producers}
        return self.ask(34, None, json.dumps(body).encode()).code

    def send_message(self, topic: str, body: bytes = b"x", *, sys_flag: int = 0, **properties: str) -> Command:
        """Send a message, born now or at `BORN` of its properties."""
        born = properties.pop("BORN", None) or int(time.time() * 1000)
        text = "".join(f"{name}\x01{value}\x02" for name, value in properties.items())
        fields = {
            "producerGroup": "P", "topic": topic, "defaultTopic": "TBW102", "defaultTopicQueueNums": 1, "queueId": 0,
            "sysFlag": sys_flag, "bornTimestamp": born, "flag": 0, "properties": text, "reconsumeTimes": 0,
            "unitMode": "false", "batch": "false",
        }  # fmt: skip
        return self.ask(10, fields, body)

    def pull(self, topic: str, offset: int, *, tags: str = "*", millis: int = 30_000) -> int:
        """Send a pull that may be held; return its opaque."""
        fields = {
            "consumerGroup": "readers", "topic": topic, "queueId": 0, "queueOffset": offset, "maxMsgNums": 32,
            "sysFlag": 6, "commitOffset": 0, "suspendTimeoutMillis": millis, "subscription": tags, "subVersion": 0,
        }  # fmt: skip
        return self.fire(11, fields)

    def outcome(self, opaque: int, seconds: float) -> object:
        """Return code and next offset of a pull's reply, None if it does not come in time."""
        reply = self.wait(opaque, seconds)
        return reply and (reply.code, (reply.fields or {}).get("nextBeginOffset"))


def notices(one: Peer, other: Peer, note: Note) -> None:
    """Members of a group join, change and leave."""

    def changed() -> None:
        note([[push.fields for push in peer.pushed()] for peer in (one, other)])

    steps: list[Callable[[], object]] = [
        lambda: one.beat("one", "notified", "T"),
        lambda: other.beat("other", "notified", "T"),
        lambda: other.beat("other", "notified", "T", "U"),
        lambda: other.beat("other", "notified", "T"),
        lambda: other.beat("renamed", "notified", "T"),
        lambda: other.ask(35, {"clientID": "nobody", "consumerGroup": "notified"}).code,
        lambda: other.ask(35, {"clientID": "nobody", "consumerGroup": "notified"}).code,
    ]
    for step in steps:
        note(step())
        changed()


def held_pulls(one: Peer, other: Peer, note: Note) -> None:
    """Pulls whose time is over, or overflows, and an arrival with another tag."""
    other.send_message("Held")
    waits = one.pull("Held", 1, tags="A"), one.pull("Held", 1, tags="A", millis=100)
    note(one.wait(_NO_OPAQUE, QUIET))
    other.send_message("Held", TAGS="B")
    note([one.outcome(waits[1], PATIENCE), one.outcome(waits[0], QUIET)])
    overflowing = one.pull("Held", 2, millis=2**63 - 1)
    note(one.outcome(overflowing, PATIENCE))


def transaction_checks(one: Peer, other: Peer, note: Note) -> None:
    """Half messages with odd times, and without a group."""
    one.beat("one", producer="P")
    other.beat("other", producer="")
    odd: dict[str, dict[str, str]] = {
        "plain": {"PGROUP": "P"},
        "no group": {},
        "overflowing immunity": {"PGROUP": "P", "CHECK_IMMUNITY_TIME_IN_SECONDS": str(2**62)},
        "immune": {"PGROUP": "P", "CHECK_IMMUNITY_TIME_IN_SECONDS": "3600"},
        "no immunity": {"PGROUP": "P", "CHECK_IMMUNITY_TIME_IN_SECONDS": "long"},
        "overflowing age": {"PGROUP": "P", "BORN": str(-(2**63))},
        "old": {"PGROUP": "P", "BORN": "1"},
        "young": {"PGROUP": "P", "BORN": str(2**62)},
    }
    for name, properties in odd.items():
        note(other.send_message("Odd", name.encode(), sys_flag=4, TRAN_MSG="true", **properties).code)
    note(sorted({decode_message(push.body).body for push in one.pushed(7.0)}))
    note([push.code for push in other.pushed()])


def changed_settings(one: Peer, _other: Peer, note: Note) -> None:
    """Settings that count at once, or from the next start on."""
    for setting in ("maxMessageSize=20", "maxMessageSize=9", "maxMessageSize=4194304"):
        note((setting, one.ask(25, None, setting.encode()).code))
        note([one.send_message("Sizes", bytes(size)).code for size in (20, 21)])
    for levels in (" ".join(["1s"] * 20), "1s 2s"):
        one.ask(25, None, f"messageDelayLevel={levels}".encode())
        note([(one.send_message("Levels", DELAY=level).fields or {}).get("queueOffset") for level in ("20", "5", "3")])
    one.ask(25, None, b"brokerIP1=127.0.0.9")
    note(parse_offset_message_id((one.send_message("Levels").fields or {})["msgId"])[0])
    for is_on in ("false", "true"):
        one.ask(25, None, f"autoCreateTopicEnable={is_on}".encode())
        note(one.send_message(f"NewWhile{is_on}").code)


def leaving_clients(one: Peer, other: Peer, note: Note) -> None:
    """A consumer closes its connection in place of an answer."""
    other.beat("leaver", "left", "T")
    running = one.fire(307, {"consumerGroup": "left", "clientId": "leaver"})
    note(len(other.pushed()) > 0)
    other.close()
    reply = one.wait(running, PATIENCE)
    note(reply and reply.code)


@pytest.fixture(scope="module")
def masters(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Addresses of both masters."""
    with contextlib.ExitStack() as stack:
        yield {
            system: stack.enter_context(lone_master(system, java, tmp_path_factory.mktemp(f"events-{system}"))).address
            for system in ("real", "ours")
        }


@pytest.mark.parametrize("flow", [notices, held_pulls, transaction_checks, changed_settings, leaving_clients])
def test_clients_see_the_same(flow: Flow, masters: Mapping[str, str]) -> None:
    noted: dict[str, list[Any]] = {system: [] for system in masters}
    threads = [
        threading.Thread(target=_play, args=(flow, address, noted[system])) for system, address in masters.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert noted["ours"] == noted["real"]
    assert not [one for one in noted["real"] if isinstance(one, BaseException)]


def _play(flow: Flow, address: str, noted: list[Any]) -> None:
    one, other = Peer(address), Peer(address)
    try:
        flow(one, other, noted.append)
    except BaseException as exc:  # noqa: BLE001 - the other thread asserts
        noted.append(exc)
    finally:
        one.close()
        other.close()
