"""Replays requests of mqadmin and Java clients, and compares our responses.

The recordings b1 to b7 are one session; b8 and two more are another, against a master without a slave; the others stand
alone, with the topics that they found there. Compared are the response code, the names of the ext fields, and the form
of the body: members by name and type; for pulls and queries the messages themselves.
"""

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import attrs
import pytest

from rmqlab.broker.scripted import ScriptedPeer
from rmqlab.broker.testing import TalkingBroker
from rmqlab.remoting.codec import decode_command
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.fastjson import parse_fastjson
from rmqlab.remoting.frame import FrameDecoder
from rmqlab.remoting.message import decode_messages

Opener = Callable[..., TalkingBroker]

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
SESSION = (
    "b1_admin_topics", "b2_admin_groups_send", "b3_admin_status", "b4_admin_query_print", "b5_admin_connections",
    "b6_admin_offsets", "b7_admin_kv_perm_delete",
)  # fmt: skip
BOOT_MILLIS = 1_795_198_783_226
SWEEP_PERIOD = 5.0
BETWEEN_FILES = 10.0
MESSAGES = {RequestCode.PULL_MESSAGE, RequestCode.QUERY_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID}


class Step(NamedTuple):
    """A command on a connection to the master, either way, or its end (None)."""

    at: float
    address: str
    command: Command | None
    is_from_client: bool = True


def steps_of(name: str) -> list[Step]:
    """Return all commands of a recording between clients and the master, in order."""
    streams = json.loads((GOLDEN / "streams.json").read_text())["files"]
    (recording,) = [one for one in streams if one["file"] == f"wire/{name}.jsonl"]
    frames = [json.loads(line) for line in (GOLDEN / "wire" / f"{name}.jsonl").read_text().splitlines()]
    addresses, steps = {}, []
    for stream in recording["streams"]:
        if (stream["from"], stream["to"]) == ("client", "master"):
            addresses[stream["stream"]] = stream["client_addr"]
            ends = [at for at, *_ in stream["close"][:1] if at <= frames[-1]["t"]]  # later: in a later recording
            steps += [Step(at, stream["client_addr"], None) for at in ends]
    for frame in frames:
        if frame["stream"] in addresses:
            (raw,) = FrameDecoder().feed(bytes.fromhex(frame["hex"]))
            is_from_client = frame["from"] == "client"
            steps.append(Step(frame["t"], addresses[frame["stream"]], decode_command(raw), is_from_client))
    return sorted(steps, key=lambda step: step.at)


@attrs.define(eq=False)
class Replay:
    """Plays recordings to a broker and gathers the replies of both."""

    talk: TalkingBroker
    peers: dict[str, ScriptedPeer] = attrs.field(factory=dict)
    asked: dict[tuple[str, int], Command] = attrs.field(factory=dict)
    expected: dict[tuple[str, int], Command] = attrs.field(factory=dict)

    def play(self, steps: list[Step]) -> None:
        """Play one recording after the previous ones."""
        began = self.talk.clock.seconds + BETWEEN_FILES
        self._learn_replies(steps)
        for step in steps:
            self._go_to(began + step.at)
            peer = self._peer(step.address)
            if step.command is None:
                peer.close("as recorded")
                self.talk.broker.channel_closed(peer)  # type: ignore[arg-type]  # a stand-in
            elif step.is_from_client and not step.command.is_response:
                self.asked[step.address, step.command.opaque] = step.command
                self.talk.run_pass(peer, step.command)
                self.talk.acknowledge(self.talk.broker.store.max_commit_log_offset)
            elif not step.is_from_client and step.command.is_response:
                self.expected[step.address, step.command.opaque] = step.command

    def _learn_replies(self, steps: list[Step]) -> None:
        """Let each consumer reply to our broker as to the recorded one."""
        requests = {
            (step.address, step.command.opaque): step.command.code
            for step in steps
            if step.command and not step.is_from_client and not step.command.is_response
        }
        for step in steps:
            if step.command and step.is_from_client and step.command.is_response:
                code = requests[step.address, step.command.opaque]
                self._peer(step.address).scripted_replies[code] = step.command

    def _go_to(self, moment: float) -> None:
        """Let time pass, with the sweeps that it brings."""
        clock = self.talk.clock
        while (sweep_at := (clock.seconds // SWEEP_PERIOD + 1) * SWEEP_PERIOD) < moment:
            clock.seconds = sweep_at
            self.talk.sweep_held_pulls()
        clock.seconds = max(clock.seconds, moment)

    def _peer(self, address: str) -> ScriptedPeer:
        return self.peers.setdefault(address, ScriptedPeer(address))

    def differences(self) -> Iterator[str]:
        """Differences of our replies, by request."""
        ours = {(address, one.opaque): one for address, peer in self.peers.items() for one in peer.replies}
        for key, expected in self.expected.items():
            asked = self.asked.get(key)
            if asked is None:  # sent before the recording began
                continue
            got = ours.get(key)
            if got is None:
                yield f"{asked.code} {asked.ext_fields}: no answer, expected {expected.code} {expected.remark}"
            elif (of_ours := form(asked, got)) != (of_theirs := form(asked, expected)):
                yield f"{asked.code} {asked.ext_fields}: {got.remark} {of_ours}\n    not {expected.remark} {of_theirs}"


def form(asked: Command, reply: Command) -> tuple[int, Any, Any]:
    """The compared parts of a reply."""
    fields = None if reply.raw_fields is None else sorted(reply.ext_fields)
    if asked.code in MESSAGES:
        messages = decode_messages(reply.body)
        return reply.code, fields, [(one.topic, one.queue_id, one.queue_offset, one.body) for one in messages]
    return reply.code, fields, body_form(asked.code, reply.body)


def body_form(code: int, body: bytes) -> Any:
    if code in {RequestCode.GET_CONSUMER_RUNNING_INFO, RequestCode.CONSUME_MESSAGE_DIRECTLY}:
        return body  # passed on as it is
    if code == RequestCode.GET_BROKER_CONFIG:
        return {"text of lines"} if body else None  # which lines: tests of the settings
    value: Any = parse_fastjson(body) if body else None
    if code == RequestCode.GET_BROKER_RUNTIME_INFO:
        # One key is named after a directory.
        return {"table": sorted(key for key in value["table"] if "_" not in key)}
    if code == RequestCode.GET_BROKER_CONSUME_STATS:
        value["consumeStatsList"] = {name: stats for one in value["consumeStatsList"] for name, stats in one.items()}
    return shape(value)


def shape(value: Any) -> Any:
    """Names and types, without values. Of a list, what its first element looks like."""
    if isinstance(value, dict):
        return {str(key): shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(item) for item in value[:1]]
    return type(value).__name__


def start(talk: TalkingBroker) -> Replay:
    talk.clock.wall_epoch_millis = BOOT_MILLIS

    talk.tasks.runs_at_once = True
    return Replay(talk)


def test_a_session_of_mqadmin_is_answered_as_the_real_broker_answered_it(open_broker: Opener) -> None:
    """broker-requests#53, #54, #55, #56, #57, #58, #59, #60, #61, #63."""
    replay = start(open_broker(broker_role="SYNC_MASTER", listen_port=26911))
    replay.talk.replication.has_slave = True
    for name in SESSION:
        replay.play(steps_of(name))
    assert len(replay.expected) > 250
    assert list(replay.differences()) == []
    assert replay.talk.broker.unserved == {}


def test_a_master_without_a_slave_answers_tools_and_odd_requests_as_the_real_one(open_broker: Opener) -> None:
    """broker-requests#7, #14, #15, #16, #17, #23, #57, #58: topics gone for good.

    Sends no producer would make.
    """
    replay = start(open_broker(broker_role="SYNC_MASTER", listen_port=26911))
    for name in ("b8_admin_single_master", "c_missing_topic", "c_raw_requests"):
        replay.play(steps_of(name))
    assert list(replay.differences()) == []
    assert {code for _, code in replay.talk.broker.unserved} == {9999}


TOPICS = {"DPoll": 1, "DOrder": 2, "DBroad": 2, "DLite": 4, "CBasic": 4, "DSql": 1, "GRpc": 2, "GRpcNobody": 2}
WITHOUT_SLAVE = {"c_request_reply"}


@pytest.mark.parametrize(
    "name",
    [
        "c_basic", "c_compress_types", "c_uniqkey_ipv6", "c_vip", "d_broadcast", "d_lite", "d_longpoll", "d_orderly",
        "c_request_reply", "d_sql", "h1_binary_client",
    ],
)  # fmt: skip
def test_java_clients_are_answered_as_the_real_broker_answered_them(open_broker: Opener, name: str) -> None:
    """Replay Java clients' sessions; h1 has binary headers.

    Items: broker-requests#1, #11, #15, #19, #25, #29, #31, #38, #39, #40, #43, #46, #48 as clients use them.
    """
    replay = start(open_broker(broker_role="SYNC_MASTER", listen_port=26911))
    replay.talk.replication.has_slave = name not in WITHOUT_SLAVE
    for topic, queues in TOPICS.items():
        replay.talk.broker.topics.create_plain(topic, queues)
    replay.play(steps_of(name))
    assert list(replay.differences()) == []


@pytest.mark.parametrize("key", ["NOTIFY_CONSUMER_IDS_CHANGED", "RESET_CONSUMER_CLIENT_OFFSET"])
def test_consumers_hear_what_the_recorded_ones_heard(open_broker: Opener, key: str) -> None:
    """broker-requests#39, #58: what a broker says unasked, to whom and in which order."""
    code = RequestCode[key]
    replay = start(open_broker(broker_role="SYNC_MASTER", listen_port=26911))
    replay.talk.replication.has_slave = True
    heard: list[tuple[str, dict[str, str], bytes]] = []
    for name in SESSION:
        steps = steps_of(name)
        replay.play(steps)
        heard += [
            (step.address, step.command.ext_fields, step.command.body)
            for step in steps
            if step.command and not step.is_from_client and step.command.code == code and step.command.is_oneway
        ]
    ours = [
        (address, command.ext_fields, command.body)
        for address, peer in replay.peers.items()
        for command in peer.asked
        if command.code == code
    ]
    assert [(address, fields, len(body)) for address, fields, body in ours] == [
        (address, fields, len(body)) for address, fields, body in heard
    ]
