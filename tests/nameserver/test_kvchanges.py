"""Changes of the KV table in groups: one write of the file for all that wait."""

import json
import pathlib
from typing import Any

import pytest

from rmqlab.remoting.codec import decode_command
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import ONEWAY, Command
from rmqlab.remoting.frame import FrameDecoder
from rmqlab.store.files.configfile import on_disk
from rmqlab.store.files.disk import Disk


class CountingDisk(Disk):
    """Counts the files that it writes; may be full."""

    writes = 0
    is_full = False

    def write_file(self, path: pathlib.Path, content: bytes) -> None:
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.writes += 1
        super().write_file(path, content)


def ask(bench: Any, wire: Any, code: RequestCode, opaque: int, flag: int = 0, **fields: str) -> None:
    bench.dispatcher.serve(wire, Command(code, opaque=opaque, flag=flag, raw_fields=fields))


def replies(wire: Any) -> list[tuple[int, int]]:
    """Return opaque and code of each reply."""
    frames = FrameDecoder().feed(bytes(wire.written))
    return [(reply.opaque, reply.code) for reply in map(decode_command, frames)]


def in_file(bench: Any) -> Any:
    return json.loads(pathlib.Path(bench.config.kv_config_path).read_bytes())["configTable"]


def test_changes_that_arrive_during_a_write_share_the_next_in_their_order(bench: Any) -> None:
    """remoting#37."""
    wire, disk = bench.wire(), CountingDisk()
    bench.calls.is_held = True
    with on_disk(disk):
        for number in range(100):
            ask(bench, wire, RequestCode.PUT_KV_CONFIG, number, namespace="ns", key="k", value=str(number))
        ask(bench, wire, RequestCode.DELETE_KV_CONFIG, 100, namespace="ns", key="k")
        ask(bench, wire, RequestCode.PUT_KV_CONFIG, 101, flag=ONEWAY, namespace="ns", key="other", value="v")
        assert replies(wire) == []
        assert bench.call(RequestCode.GET_KV_CONFIG, namespace="ns", key="k").code == ResponseCode.QUERY_NOT_FOUND
        bench.calls.release()
        assert replies(wire) == [(0, 0)]
        assert in_file(bench) == {"ns": {"k": "0"}}
        bench.calls.release()
    assert replies(wire) == [(number, 0) for number in range(101)]
    assert in_file(bench) == bench.state.kv.namespaces == {"ns": {"other": "v"}}
    assert disk.writes == 2


def test_a_group_that_is_not_saved_changes_nothing_and_the_next_is_tried(bench: Any) -> None:
    wire, disk = bench.wire(), CountingDisk()
    bench.calls.is_held = True
    with on_disk(disk):
        for number in range(4):
            ask(bench, wire, RequestCode.PUT_KV_CONFIG, number, namespace="ns", key=str(number), value="v")
        bench.calls.release()
        disk.is_full = True
        bench.calls.release()
        assert replies(wire) == [(0, 0), (1, 1), (2, 1), (3, 1)]
        assert in_file(bench) == bench.state.kv.namespaces == {"ns": {"0": "v"}}
        disk.is_full = False
        ask(bench, wire, RequestCode.PUT_KV_CONFIG, 4, namespace="ns", key="4", value="v")
        bench.calls.release()
    assert replies(wire)[4:] == [(4, 0)]
    assert in_file(bench) == bench.state.kv.namespaces == {"ns": {"0": "v", "4": "v"}}


def test_only_the_change_beyond_a_limit_is_rejected(bench: Any) -> None:
    wire = bench.wire()
    bench.calls.is_held = True
    ask(bench, wire, RequestCode.PUT_KV_CONFIG, 0, namespace="ns", key="k", value="v")
    ask(bench, wire, RequestCode.PUT_KV_CONFIG, 1, namespace="ns", key="long", value="v" * 2**23)
    ask(bench, wire, RequestCode.PUT_KV_CONFIG, 2, namespace="ns", key="k", value="w")
    for _ in range(2):
        bench.calls.release()
    assert sorted(replies(wire)) == [(0, 0), (1, 1), (2, 0)]
    assert in_file(bench) == {"ns": {"k": "w"}}


def test_a_thread_that_cannot_be_started_rejects_its_group(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(type(bench.calls), "start", start)
    reply = bench.call(RequestCode.PUT_KV_CONFIG, namespace="ns", key="k", value="v")
    assert (reply.code, reply.remark) == (1, "the change is not saved: can't start new thread")
    assert bench.state.kv.namespaces == {}


@pytest.mark.parametrize(("limit", "value"), [("MAX_WAITING", 3), ("MAX_WAITING_CHARACTERS", 15)])
def test_more_changes_than_may_wait_get_code_2(
    bench: Any, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    """Issue 12.6."""
    monkeypatch.setattr(f"rmqlab.nameserver.kvchanges.{limit}", value)
    wire = bench.wire()
    bench.calls.is_held = True
    for number in range(6):
        ask(bench, wire, RequestCode.PUT_KV_CONFIG, number, namespace="ns", key="k", value="v" * 2)
    assert replies(wire) == [(4, 2), (5, 2)]
    for _ in range(2):
        bench.calls.release()
    assert sorted(replies(wire)) == [(0, 0), (1, 0), (2, 0), (3, 0), (4, 2), (5, 2)]
    ask(bench, wire, RequestCode.PUT_KV_CONFIG, 6, namespace="ns", key="k", value="v")
    bench.calls.release()
    assert replies(wire)[-1] == (6, 0)


def test_keys_without_values_count_although_they_are_not_in_the_file(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise 50,000 of the longest names take 200 MB of memory."""
    monkeypatch.setattr("rmqlab.nameserver.kvconfig.MAX_FILE_SIZE", 20_000)
    put = [bench.call(RequestCode.PUT_KV_CONFIG, namespace="ns", key=f"{number:04000}").code for number in range(6)]
    assert put == [0, 0, 0, 0, 1, 1]
