"""Recorded requests to a nameserver, with replies equal to the recorded ones.

The clients are a real broker pair, mqadmin and applications.
"""

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from rmqlab.remoting.codec import decode_command
from rmqlab.remoting.codes import RequestCode
from rmqlab.remoting.command import Command
from rmqlab.remoting.fastjson import parse_fastjson
from rmqlab.remoting.frame import FrameDecoder

WIRE = pathlib.Path(__file__).parents[1] / "golden" / "wire"


@attrs.frozen
class Exchange:
    """One request, and the response it got, if any."""

    stream: int
    sender: str
    request: Command
    response: Command | None


def exchanges(name: str) -> list[Exchange]:
    """Read the frames of one recording to and from the nameserver."""
    rows = [json.loads(line) for line in (WIRE / f"{name}.jsonl").read_bytes().splitlines()]
    requests = [row for row in rows if row["to"] == "nameserver"]
    responses = {(row["stream"], row["header"]["opaque"]): decoded(row) for row in rows if row["from"] == "nameserver"}
    return [
        Exchange(row["stream"], row["from"], decoded(row), responses.get((row["stream"], row["header"]["opaque"])))
        for row in requests
    ]


def decoded(row: dict[str, Any]) -> Command:
    """Understand a recorded frame."""
    [frame] = FrameDecoder().feed(bytes.fromhex(row["hex"]))
    return decode_command(frame)


def first_registrations(recorded: list[Exchange]) -> Iterator[Exchange]:
    """Yield the first registration of each broker.

    A recording that begins later takes them for known.
    """
    seen = set()
    for exchange in recorded:
        if exchange.request.code == RequestCode.REGISTER_BROKER and exchange.sender not in seen:
            seen.add(exchange.sender)
            yield exchange


@pytest.mark.parametrize(
    ("name", "begins_later"),
    [
        ("a_registration", False),
        ("a_registration_data_version", False),
        ("b1_admin_topics", True),
        ("b7_admin_kv_perm_delete", True),
        ("e1_sends", True),
        ("e3_sends", True),
        ("h2_binary_all", True),
    ],
)
def test_replies_are_those_that_were_recorded(bench: Any, name: str, begins_later: bool) -> None:  # noqa: FBT001 - a column of the table
    """Compare code, ext fields, body and codec of all replies.

    Items: remoting#3, #4, #15, #18, #19, #20, #22, #25, #26, #28, #29, #36, #38. Bodies are compared byte by byte, for
    with one broker name 4.9 has no choice of order; topic lists by what is in them.
    """
    recorded = exchanges(name)
    wires: dict[int, Any] = {}
    for exchange in first_registrations(recorded) if begins_later else ():
        bench.ask(exchange.request, wires.setdefault(exchange.stream, bench.wire()))
    compared = 0
    for exchange in recorded:
        reply = bench.ask(exchange.request, wires.setdefault(exchange.stream, bench.wire()))
        if exchange.response is None:
            assert exchange.request.is_oneway
            assert reply is None
            continue
        assert_alike(reply, exchange.response)
        compared += 1
    assert compared > 4


def assert_alike(got: Command | None, wanted: Command) -> None:
    """Compare everything that a peer can distinguish.

    Remarks are text for people, and ours are our own.
    """
    assert got is not None
    assert (got.code, got.opaque, got.flag) == (wanted.code, wanted.opaque, wanted.flag)
    assert got.serialize_type == wanted.serialize_type
    assert got.ext_fields == wanted.ext_fields
    assert (got.raw_fields is None) == (wanted.raw_fields is None)
    assert (got.remark is None) == (wanted.remark is None)
    if b"topicList" in wanted.body:
        assert sorted(parse_fastjson(got.body)["topicList"]) == sorted(parse_fastjson(wanted.body)["topicList"])
    else:
        assert got.body == wanted.body


def test_routes_take_the_form_that_each_version_is_given_and_unknown_codes_an_answer(bench: Any) -> None:
    """remoting#16, #14: 401 and acceptStandardJsonOnly quote broker ids, 317 does not.

    9999 never got a reply.
    """
    bench.register(bench.topic("GWiped", 2), host="127.0.0.1")
    bench.state.routes.brokers["broker-a"].addresses[0] = "127.0.0.1:26911"
    recorded = exchanges("c_raw_requests")
    assert [(exchange.request.code, exchange.request.version) for exchange in recorded] == [
        (105, 401),
        (105, 317),
        (105, 318),
        (9999, 0),
    ]
    for exchange in recorded[:3]:
        assert exchange.response is not None
        assert_alike(bench.ask(exchange.request), exchange.response)
    assert recorded[3].response is None
    reply = bench.ask(recorded[3].request)
    assert (reply.code, reply.remark) == (3, " request type 9999 not supported")
