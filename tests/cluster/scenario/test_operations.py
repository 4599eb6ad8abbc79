"""Actions that do what operators do.

Arguments are checked before the run. All of them play on a simulated cluster.
"""

from pathlib import Path
from typing import Any

import pytest

from rmqlab.cluster.scenario.load import ScenarioError, parse_scenario
from rmqlab.cluster.scenario.result import Options
from rmqlab.cluster.scenario.rundir import RunDirectory
from rmqlab.cluster.simulation.play import play_simulated
from rmqlab.runtime.journals.journalreader import read_journals
from rmqlab.verdict.verdict import Verdict

HEAD = """
name = "x"
claim = "c"
[[workload]]
name = "orders"
kind = "produce"
topic = "orders"
count = 8
[[workload]]
name = "shop"
kind = "consume"
topic = "orders"
group = "shop"
"""


def scenario_of(*steps: str, head: str = HEAD) -> str:
    return head + "".join(f"[[step]]\n{step}\n" for step in steps)


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ('create-topic = "a b"', "has a character other than"),
        ('create-topic = { topic = "t", order = "yes" }', "order = 'yes': expected true or false"),
        ("create-topic = 3", "expected a table such as"),
        ('create-topic = { topic = "t", queue = 3 }', "no key 'queue'.*did you mean queues"),
        ("create-topic = { queues = 3 }", "topic is missing"),
        ('create-topic = { topic = "t", queues = 0 }', "number of read queues 0: expected a whole number from 1"),
        ('create-topic = { topic = "t", queues = "4" }', "queues = '4': expected a whole number"),
        ('create-topic = { topic = "t", read_queues = true }', "read_queues = true: expected a whole number"),
        ('update-topic = { topic = "orders", write_queues = 1.0 }', "write_queues = 1.0: expected a whole number"),
        ('update-group = { group = "shop", retries = "2" }', "retries = '2': expected a whole number"),
        ('reset-offset = { group = "shop", topic = "orders", offset = "3" }', "offset = '3': expected a whole number"),
        ('create-topic = { topic = "t", permission = "read" }', "permission 'read': expected a number from 0 to 7"),
        ('create-topic = { topic = "t", brokers = "broker-a" }', "expected an array of broker names"),
        ('create-topic = { topic = "t", brokers = ["broker-x"] }', "no broker name 'broker-x'; did you mean broker-a?"),
        ('update-topic = { topic = "orders" }', "nothing to change"),
        ('update-topic = { topic = "ordrs", queues = 2 }', "makes topic 'ordrs'; did you mean orders?"),
        ('delete-topic = "ordrs"', "makes topic 'ordrs'; did you mean orders?"),
        ('update-group = { group = "shop" }', "nothing to change"),
        ('update-group = { group = "shp", retries = 2 }', "no workload consumes as group 'shp'; did you mean shop?"),
        ('update-group = { group = "shop", broker_id = -1 }', "broker id -1: expected a whole number from 0"),
        ('update-group = { group = "shop", consume = "no" }', "consume = 'no': expected true or false"),
        ('delete-group = "shp"', "did you mean shop?"),
        ('delete-group = { group = "shop", offsets = 1 }', "offsets = 1: expected true or false"),
        ('reset-offset = { group = "shop", topic = "orders" }', "expected either time or offset"),
        (
            'reset-offset = { group = "shop", topic = "orders", time = "soon" }',
            "time 'soon': expected first, now, -10m",
        ),
        ('reset-offset = { group = "shop", topic = "orders", offset = "x" }', "offset = 'x': expected a whole number"),
        (
            'reset-offset = { group = "shop", topic = "orders", time = "now", queue = "broker-a:0" }',
            "queue needs offset",
        ),
        ('reset-offset = { group = "shop", topic = "orders", offset = 1, queue = "0" }', "expected BROKER:QUEUE"),
        ('reset-offset = { group = "shop", topic = "orders", offset = 1, only_back = true }', "only_back needs time"),
        ('wipe-write-perm = "broker-b"', "no broker name 'broker-b'; did you mean broker-a?"),
        ("add-write-perm = 3", "expected a broker name, got 3"),
        ('set-config = { target = "broker-a" }', "settings: expected a table"),
        ('set-config = { target = "broker-a", settings = {} }', "no setting is given"),
        ('set-config = { target = "namesrv-1", settings = { a = 1 } }', "namesrv-1 is a nameserver"),
        ('set-config = { target = "broker-x", settings = { a = 1 } }', "broker-x"),
        ('set-config = { target = "broker-a", settings = { a = [1] } }', "expected a text, a number, true or false"),
        ('set-config = { target = "broker-a", settings = { a = "1\\n2" } }', "line break"),
    ],
)
def test_impossible_operations_are_rejected_before_the_run(step: str, text: str) -> None:
    with pytest.raises(ScenarioError, match=text):
        parse_scenario(scenario_of(step))


def test_a_topic_that_a_step_has_deleted_is_missing_from_then_on() -> None:
    parse_scenario(scenario_of('create-topic = "new"', 'delete-topic = "new"', 'create-topic = "new"'))
    with pytest.raises(ScenarioError, match="no workload and no step before makes topic 'new'"):
        parse_scenario(scenario_of('create-topic = "new"', 'delete-topic = "new"', 'delete-topic = "new"'))


def test_a_scenario_without_workloads_may_name_what_others_use() -> None:
    head = 'name = "x"\nclaim = "c"\n'
    parse_scenario(scenario_of('delete-topic = "of-another-program"', 'delete-group = "theirs"', head=head))


ALL = (
    scenario_of(
        'create-topic = { topic = "new", queues = 2, permission = "r" }',
        'update-topic = { topic = "new", permission = 6 }',
        'wait = "topic-known namesrv-1 new"\nmark = "known"',
        'set-config = { target = "broker-a:slave", settings = { slaveReadEnable = true } }',
        'wait = "ended orders"\nmark = "sent"',
        'wait = "consumed-all shop"\nstop-workload = "shop"',
        'update-group = { group = "shop", when_slow = 0 }',
        'reset-offset = { group = "shop", topic = "orders", time = "first" }',
        'reset-offset = { group = "shop", topic = "orders", offset = 1, queue = "broker-a:0" }',
        'wipe-write-perm = "broker-a"',
        'add-write-perm = "broker-a"',
        'wait = "metadata-synced broker-a"\nmark = "synced"',
        'delete-group = { group = "shop", offsets = true }',
        'delete-topic = "new"',
    )
    + '[[expect]]\nevent = "operated"\nequals = "10 events"\n'
)


def test_all_of_them_play_on_virtual_time_and_are_recorded(tmp_path: Path) -> None:
    run = play_simulated(parse_scenario(ALL), Options(seed=3), directory=RunDirectory(tmp_path))
    assert (run.verdict, run.reasons()) == (Verdict.HOLDS, [])
    events = [event for event in read_journals(tmp_path / "journal") if event.kind == "operated"]
    done: dict[str, Any] = {str(event.fields["operation"]).split()[0]: event.fields["result"] for event in events}
    assert done["create-topic"]["brokers"][0]["permission"] == 4
    assert done["update-topic"]["brokers"][0] == done["create-topic"]["brokers"][0] | {"permission": 6}
    assert done["set-config"][0]["after"] == "true"
    assert done["update-group"]["brokers"][0]["when_slow"] == 0
    assert [one["after"] for one in done["reset-offset"]["queues"]] == [1]
    assert done["wipe-write-perm"]["topics"] == done["add-write-perm"]["topics"]
    assert done["delete-group"]["topics"] == ["%RETRY%shop"]
    assert done["delete-topic"]["brokers"] == ["broker-a"]


def test_an_order_topic_is_made_unmade_and_deleted_with_its_queues(tmp_path: Path) -> None:
    """Each result has what the nameservers had before, but for what the step changes."""
    text = scenario_of(
        'create-topic = { topic = "lines", queues = 3, order = true }',
        'update-topic = { topic = "lines", queues = 5 }',
        'update-topic = { topic = "lines", order = false }',
        'update-topic = { topic = "lines", order = true }',
        'delete-topic = "lines"',
        'create-topic = "lines"',
    )
    text += '[[expect]]\nevent = "operated"\nequals = "6 events"\n'
    run = play_simulated(parse_scenario(text), Options(seed=3), directory=RunDirectory(tmp_path))
    assert (run.verdict, run.reasons()) == (Verdict.HOLDS, [])
    results = [event.fields["result"] for event in read_journals(tmp_path / "journal") if event.kind == "operated"]
    found = [(one["order_config"], one["brokers"][0]["order"]) for one in results if "order_config" in one]
    assert found == [
        ("broker-a:3", True),
        ("broker-a:5", True),
        (None, False),
        ("broker-a:5", True),
        (None, False),
    ]


def test_members_that_are_online_get_the_offsets_of_a_time(tmp_path: Path) -> None:
    """To an offset, a group with members is not reset.

    Each member would commit its own offset again.
    """
    reset = 'reset-offset = { group = "shop", topic = "orders", '
    text = scenario_of(
        'wait = "ended orders"\nmark = "sent"',
        'wait = "consumed-all shop"\n' + reset + 'time = "first" }',
        'wait = "delivered shop 8"\n' + reset + "offset = 1 }",
    )
    text += '[[expect]]\nmetric = "duplicates.offset_rollback"\nequals = "8 deliveries"\n'
    run = play_simulated(parse_scenario(text), Options(seed=3), directory=RunDirectory(tmp_path))
    (event,) = [event for event in read_journals(tmp_path / "journal") if event.kind == "operated"]
    assert event.fields["result"]["members"] == 1
    assert {one["after"] for one in event.fields["result"]["queues"]} == {0}
    assert "step 3: group shop has members online (1), which would commit" in " ".join(run.reasons())
