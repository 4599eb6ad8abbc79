"""A broker's report to the supervisor has a limit, whatever clients let grow."""

from types import SimpleNamespace
from typing import Any, cast

from rmqlab.broker.snapshot import MOST_ENTRIES, snapshot
from rmqlab.broker.testing import TalkingBroker
from rmqlab.runtime.bounds import LEFT_OUT, SNAPSHOT, bounded


def test_a_snapshot_of_many_groups_holds_the_first_and_the_number_of_all(talk: TalkingBroker) -> None:
    broker = talk.broker
    broker.registration = cast("Any", SimpleNamespace(registered=set(), ha_address=""))
    broker.ha_master = cast("Any", SimpleNamespace(snapshot=dict))
    broker.offsets.offsets = {f"T@group-{n}": {0: n} for n in range(100_000)}
    broker.offsets.offsets["T@group-0"] = dict.fromkeys(range(5000), 1)
    broker.producers.groups = cast("Any", {f"group-{n}": {} for n in range(3000)})
    facts = cast("Any", snapshot(broker))
    assert facts["consumer_offset_keys"] == 100_000
    assert facts["consumer_offsets"][LEFT_OUT] == 100_000 - MOST_ENTRIES
    assert facts["consumer_offsets"]["T@group-1"] == {0: 1}
    assert len(facts["consumer_offsets"]["T@group-0"]) == MOST_ENTRIES + 1
    assert (facts["producer_groups"], facts["producers"][LEFT_OUT]) == (3000, 3000 - MOST_ENTRIES)
    assert bounded(facts, SNAPSHOT) == facts


def test_a_snapshot_of_many_offsets_keeps_its_other_facts(talk: TalkingBroker) -> None:
    broker = talk.broker
    broker.registration = cast("Any", SimpleNamespace(registered=set(), ha_address=""))
    broker.ha_master = cast("Any", SimpleNamespace(snapshot=dict))
    broker.offsets.offsets = {f"T@group-{n}": dict.fromkeys(range(500), 2**62) for n in range(300)}
    broker.producers.groups = cast("Any", {f"{n:0>1000}": {} for n in range(3000)})
    facts = cast("Any", bounded(snapshot(broker), SNAPSHOT))
    assert facts["held_pulls"] == 0
    assert facts["unserved"] == {}
    offsets = facts["consumer_offsets"]
    assert (len(offsets.pop("T@group-39")), offsets[LEFT_OUT]) == (500, 260)
