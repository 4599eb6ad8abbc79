"""What keys mean: bytes to keys, keys to deeds.

What makes no sense is said and not done.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.cluster.cli.live.keys import Act, Heal, Quit, Selection, decode_keys, in_order, press, state_of

Document = dict[str, Any]


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"k", ["k"]),
        (b"\x1b[A\x1b[Bq", ["up", "down", "q"]),
        (b"\x1bOB\t\x1b[Z", ["down", "down", "up"]),
        (b"\x1b[15~p\x1b[1;5Cx", ["p", "x"]),
        (b"\x1b[5~\x1b[6~\x1b[H\x1b[Fk", ["page up", "page down", "home", "end", "k"]),
        (b"\x1b", ["escape"]),
        (b"\x1b[", []),
        ("é".encode(), ["", ""]),
    ],
)
def test_bytes_become_keys_and_what_means_nothing_is_passed_over_whole(data: bytes, keys: list[str]) -> None:
    assert list(decode_keys(data)) == keys


@given(st.binary(max_size=40))
def test_no_bytes_break_the_reading(data: bytes) -> None:
    assert len(list(decode_keys(data))) <= len(data)


def test_keys_act_on_the_first_master_until_another_is_chosen(document: Document) -> None:
    assert press(Selection(), "k", document)[1] == Act("kill", "broker-a")
    selection, command = press(Selection(), "down", document)
    assert (selection.node, command) == ("broker-a-s", None)
    assert press(selection, "k", document)[1] == Act("kill", "broker-a-s")


def test_arrows_go_round_and_figures_choose(document: Document) -> None:
    selection = Selection()
    seen = []
    for _ in range(5):
        selection, _ = press(selection, "down", document)
        seen.append(selection.node)
    assert seen == ["broker-a-s", "namesrv-1", "produce-1", "consume-2", "broker-a"]
    assert press(selection, "up", document)[0].node == "consume-2"
    assert press(selection, "3", document)[0].node == "namesrv-1"
    assert press(selection, "9", document)[0].node == "broker-a"


def test_pages_stop_at_the_ends(document: Document) -> None:
    for number in range(40):
        group = f"broker-{number:02}"
        document["nodes"].append({**document["nodes"][1], "name": group, "group": group})
    names = [node["name"] for node in in_order(document["nodes"])]
    selection = Selection()
    for key, place in [("page down", 10), ("page down", 20), ("up", 19), ("page up", 9), ("page up", 0), ("end", -1)]:
        selection = press(selection, key, document)[0]
        assert selection.node == names[place]
    assert press(selection, "page down", document)[0].node == names[-1]
    assert press(selection, "home", document)[0].node == names[0]


def test_help_is_shown_until_the_next_key(document: Document) -> None:
    selection, command = press(Selection(), "?", document)
    assert (selection.is_help, command) == (True, None)
    assert not press(selection, "?", document)[0].is_help
    assert not press(selection, "down", document)[0].is_help


def test_a_chosen_node_that_is_gone_gives_way_to_the_first_master(document: Document) -> None:
    assert press(Selection("produce-9"), "k", document)[1] == Act("kill", "broker-a")


@pytest.mark.parametrize(
    ("state", "key", "command", "text"),
    [
        ("ready", "p", Act("pause", "broker-a"), ""),
        ("paused", "p", Act("resume", "broker-a"), ""),
        ("ready", "x", Act("stop", "broker-a"), ""),
        ("ready", "i", Act("isolate", "broker-a"), ""),
        ("ready", "s", None, "broker-a is ready: nothing to start"),
        ("killed", "s", Act("start", "broker-a"), ""),
        ("killed", "k", None, "broker-a is killed: s starts it"),
        ("stopped", "p", None, "broker-a is stopped: s starts it"),
        ("paused", "k", Act("kill", "broker-a"), ""),
        ("paused", "x", None, "broker-a is paused and cannot stop: p resumes it, k kills it"),
        ("ready", "z", None, ""),
    ],
)
def test_a_key_does_what_makes_sense_now_or_says_why_not(
    document: Document, state: str, key: str, command: Act | None, text: str
) -> None:
    document["nodes"][1]["state"] = state
    selection, done = press(Selection("broker-a", "what was said before"), key, document)
    assert (done, selection.message) == (command, text)


@pytest.mark.parametrize("target", ["broker-a", "broker-a:master"])
def test_i_ends_the_isolation_that_i_began_and_h_ends_all_faults(document: Document, target: str) -> None:
    assert press(Selection(), "h", document)[0].message == "no fault is in force"
    document["faults"] = [{"id": "f1", "type": "isolate", "target": target}, {"id": "f2", "type": "disk"}]
    assert press(Selection("broker-a"), "i", document)[1] == Heal(("f1",))
    assert press(Selection("broker-a-s"), "i", document)[1] == Act("isolate", "broker-a-s")
    assert press(Selection(), "h", document)[1] == Heal(("f1", "f2"))
    assert state_of(document["nodes"][1], document["faults"]) == "isolated"
    assert state_of(document["nodes"][2], document["faults"]) == "ready"
    document["faults"][0]["target"] = "namesrv-9,broker-a:*"
    assert state_of(document["nodes"][2], document["faults"]) == "isolated"


def test_q_quits(document: Document) -> None:
    assert press(Selection(), "q", document)[1] == Quit()


def test_brokers_are_shown_by_group_with_the_master_first(document: Document) -> None:
    names = [node["name"] for node in in_order(document["nodes"][::-1])]
    assert names == ["broker-a", "broker-a-s", "namesrv-1", "consume-2", "produce-1"]


def test_one_key_changes_the_role_of_a_broker_to_the_other(document: Document) -> None:
    assert press(Selection("broker-a-s"), "m", document)[1] == Act("promote", "broker-a-s")
    assert press(Selection("broker-a"), "m", document)[1] == Act("demote", "broker-a")
    selection, command = press(Selection("namesrv-1"), "m", document)
    assert (selection.message, command) == ("namesrv-1 is a nameserver: only brokers have roles", None)


def test_a_paused_broker_keeps_its_role(document: Document) -> None:
    (master,) = [node for node in document["nodes"] if node["name"] == "broker-a"]
    master["state"] = "paused"
    selection, command = press(Selection("broker-a"), "m", document)
    assert (selection.message, command) == ("broker-a is paused and cannot promote: p resumes it, k kills it", None)
