"""Invalid scenario files: errors name file, line, key and the expected value."""

import contextlib
import pathlib

import pytest

from rmqlab.cluster.faults.schedule import RandomFaults
from rmqlab.cluster.scenario.load import ScenarioError, check_settings, load_scenario, parse_scenario
from rmqlab.cluster.scenario.model import Action, Step
from rmqlab.cluster.scenario.quantity import Quantity

GOOD = """\
name = "x"
claim = "c"
sources = ["rmq#1"]
end = "60 s"

[cluster]
slaves = 1

[[workload]]
name = "orders"
kind = "produce"
topic = "orders"

[[workload]]
name = "late"
kind = "consume"
topic = "orders"
start = "step"

[[step]]
at = "10 s"
kill = "broker-a:master"
label = "death"

[[step]]
wait = "route-gone broker-a:master"
within = "30 s"
consume = "late"

[[step]]
fault = { type = "link", src = "broker-a", dst = "broker-a-s", kind = "blackhole", only = "ha" }
label = "cut"

[[step]]
heal = "cut"

[[expect]]
metric = "lost.SEND_OK"
equals = "0 messages"

[[expect]]
event = "broker_connection_lost"
take = "delay"
after = "death"
at_most = "1 s"

[hardened]
drop = ["lost.SEND_OK"]
"""


CUT = 'fault = { type = "link", src = "broker-a", dst = "broker-a-s", kind = "blackhole", only = "ha" }'
LOST = 'metric = "lost.SEND_OK"'
CHANCE = "random-faults = { count = 2, "
FIRST = 'event = "sent"\ntake = "first"\n'


def test_random_faults_are_read_as_words_and_numbers() -> None:
    text = GOOD.replace(CUT, CHANCE + 'every = "0.2 min", of = ["kill"], on = "slaves", heal_after = "3 s" }')
    action = parse_scenario(text).steps[2].action
    assert action == Action("random-faults", RandomFaults(count=2, every=12, of=("kill",), on="slaves", heal_after=3))


def test_a_good_file_becomes_a_scenario() -> None:
    scenario = parse_scenario(GOOD)
    assert scenario.steps[0] == Step(at=10.0, action=Action("kill", ("broker-a:master",)), label="death")
    assert scenario.steps[1].within == 30
    assert [workload.is_early for workload in scenario.workloads] == [True, False]
    assert scenario.expectations[0].equals == Quantity(0, "messages")
    assert [e.title for e in scenario.under_profile("4.9").expectations] == [
        "lost.SEND_OK",
        "delay of broker_connection_lost",
    ]
    hardened = scenario.under_profile("hardened")
    assert [e.title for e in hardened.expectations] == ["delay of broker_connection_lost"]
    assert hardened.cluster.broker_settings["profile"] == "hardened"


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ('at = "10 s"', 'at = "721 h"', 21, "step[1].at: '721 h': expected a time from 0 s to 720 h"),
        ('at = "10 s"', f'at = "{"9" * 400} s"', 21, "step[1].at: '999"),
        ('name = "orders"', f'name = "{"x" * 65}"', 10, "workload[1].name: workload name 'xxx"),
        ('name = "orders"', 'name = "../x"', 10, "workload[1].name: workload name '../x': expected at most 64 letters, digits"),
        ('topic = "orders"', f'topic = "{"x" * 128}"', 12, "workload[1].topic: the topic is 128 characters long, at most 127 are allowed"),
        ('topic = "orders"', 'topic = "orders"\ncount = 9999999999999999999', 13, "workload[1].count: count = 9999999999"),
        ('topic = "orders"', 'topic = "orders"\nsize = 67108865', 13, "workload[1].size: size = 67108865: expected 0 to 67108864"),
        ('claim = "c"', 'clam = "c"', 2, "clam: no such key; did you mean claim?"),
        ("slaves = 1", "slave = 1", 7, "cluster.slave: no such key; did you mean slaves?"),
        ("slaves = 1", "slaves = -1", 7, "cluster.slaves: slaves = -1: expected 0 to 1231"),
        ('name = "orders"\n', 'name = "broker-a"\n', 10, "workload[1].name: 'broker-a' is a node of the cluster"),
        ('kind = "produce"', 'kind = "prodce"', 11, "workload[1].kind: 'prodce'; did you mean produce?"),
        ('topic = "orders"\n\n', 'topik = "orders"\n\n', 12, "workload[1].topik: no such key; did you mean topic?"),
        ('start = "step"', 'start = "stop"', 18, "workload[2].start: 'stop'; did you mean step?"),
        ('at = "10 s"', "at = 10", 21, 'step[1].at: 10: expected a number with a unit, such as "10 s"'),
        ('at = "10 s"', 'at = "61 s"', 21, "step[1].at: 61 s is after the scenario's end (60 s)"),
        ('at = "10 s"', 'att = "10 s"', 21, "step[1].att: no such key; did you mean at?"),
        ('kill = "broker-a:master"', 'kil = "broker-a:master"', 22, "step[1].kil: no such key; did you mean kill?"),
        ('kill = "broker-a:master"', 'kill = "broker-b"', 22, "step[1].kill: no node 'broker-b' here"),
        ('label = "death"', 'pause = "broker-a"', 23, "step[1].pause: a step does one thing: it has kill already"),
        ("route-gone broker-a:master", "rout-gone broker-a", 26, "step[2].wait: no condition 'rout-gone'"),
        ("route-gone broker-a:master", "sent ordres 5", 26, "step[2].wait: no workload 'ordres' here"),
        ("route-gone broker-a:master", "sent.SEND_KO orders 5", 26, "step[2].wait: no outcome 'SEND_KO'"),
        ("route-gone broker-a:master", "event killed", 26, "step[2].wait: event: no kind of event 'killed'"),
        ('consume = "late"', 'consume = "orders"', 14, "workload[2]: late is never started: expected a step"),
        ('kind = "blackhole"', 'kind = "backhole"', 31, "step[3].fault: link: kind = 'backhole'"),
        ('dst = "broker-a-s"', 'dst = "broker-b"', 31, "step[3].fault: no node 'broker-b' here"),
        ('heal = "cut"', 'heal = "cat"', 35, "step[4].heal: no fault of the label 'cat'; did you mean cut?"),
        ("lost.SEND_OK", "lost.SENT_OK", 38, "expect[1].metric: no metric 'lost.SENT_OK'"),
        ('equals = "0 messages"', 'same_as = "lst"', 39, "expect[1].same_as: no metric 'lst'; did you mean lost?"),
        ("0 messages", "0", 39, "expect[1].equals: '0': expected a number with a unit"),
        ("0 messages", "0 bytes", 39, "expect[1].equals: 0 bytes: expected a number of messages"),
        ('event = "broker', 'event = "brocker', 42, "expect[2].event: no kind of event 'brocker_connection_lost'; did you mean broker"),
        ('after = "death"', 'after = "deth"', 44, "expect[2].after: no step has the label 'deth'; did you mean death?"),
        ('take = "delay"', 'take = "deley"', 43, "expect[2].take: 'deley'; did you mean delay?"),
        ('drop = ["lost.SEND_OK"]', 'drop = ["lost"]', 48, "hardened.drop: no expectation 'lost'; expected one of delay of"),
        (CUT, 'wipe = "orders"', 31, "step[3].wipe: orders is a workload: wipe needs a node of the cluster"),
        (CUT, 'probe = "namesrv-1"', 31, "step[3].probe: namesrv-1 is a nameserver: probe needs a broker"),
        (CUT, 'measure = "late x.y"', 31, "step[3].measure: late is a workload: measure needs a node of the cluster"),
        (CUT, 'after = "51 s"', 31, "step[3].after: 61 s is after the scenario's end (60 s)"),
        (CUT, 'wait = "slave-in-sync namesrv-1"', 31, "step[3].wait: namesrv-1 is a nameserver: slave-in-sync needs"),
        (CUT, 'wait = "delivered orders 5"', 31, "step[3].wait: delivered: no workload 'orders' of kind consume; exp"),
        (CUT, 'wait = "sent late 5"', 31, "step[3].wait: sent: no workload 'late' of kind produce; expected one of"),
        (CUT, 'wait = "event sent ordres"', 31, "step[3].wait: unknown name 'ordres'; did you mean orders?"),
        (CUT, 'wait = "consumed-all shop"', 31, "step[3].wait: consumed-all: unknown consumer group 'shop'; expected one of"),
        ('label = "death"', 'label = "end"', 23, "step[1].label: 'end' is the label of the scenario's own end"),
        ('topic = "orders"\n\n', 'topic = ""\n\n', 12, "workload[1].topic: expected a name, got an empty text"),
        ('name = "x"', 'name = "x/y"', 1, "name: "),
        ("slaves = 1", 'slaves = "1"', 7, "cluster.slaves: '1': expected a whole number"),
        ("slaves = 1", "slaves = true", 7, "cluster.slaves: true: expected a whole number"),
        ("lost.SEND_OK", "missing broker-z", 38, "expect[1].metric: no node 'broker-z' here; did you mean broker-a?"),
        ("lost.SEND_OK", "behind broker-a", 38, "expect[1].metric: no slave 'broker-a' here; did you mean broker-a-s?"),
        ('equals = "0 m', 'at_least = "1 messages"\nat_most = "0 m', 40, "expect[1].at_most: 0 messages is less than at_l"),
        (LOST, 'event = "sent"\nwhere = { outcome = "SENT_OK" }', 39, "expect[1].where: no outcome 'SENT_OK'; did you"),
        (LOST, 'event = "sent"\nwhere = { node = "ordrs" }', 39, "expect[1].where: unknown name 'ordrs'; did you"),
        (LOST, 'event = "sent"\nwhere = { node = -1 }', 39, "expect[1].where: node = -1: expected a text"),
        (LOST, 'event = "sent"\nwhere = { outcome = [["x"]] }', 39, "expect[1].where: outcome = ['x']: expected a text"),
        (CUT, 'wait = "sent orders ²"', 31, "step[3].wait: sent needs a workload and a number"),
        (CUT, 'kill = "broker-a"', 31, "step[3].kill: broker-a does not run: it was killed before"),
        (CUT, 'resume = "broker-a-s"', 31, "step[3].resume: broker-a-s is not paused"),
        (CUT, 'start = "broker-a:slave"', 31, "step[3].start: broker-a-s already runs"),
        ("route-gone broker-a:master", "delivered late 5", 26, "step[2].wait: late has not been started yet"),
        (CUT, 'consume = "late"', 31, "step[3].consume: late was started before"),
        (CUT, CHANCE + "every = 30 }", 31, 'step[3].random-faults: every = 30: expected a number with a unit, such as "30 s"'),
        (CUT, CHANCE + 'evry = "30 s" }', 31, "step[3].random-faults: no key 'evry'; expected one of count, every"),
        (CUT, CHANCE + 'of = ["kil"] }', 31, "step[3].random-faults: random: no action 'kil': expected some of kill"),
        (CUT, CHANCE + 'of = "kill" }', 31, "step[3].random-faults: of = 'kill': expected an array of actions"),
        (CUT, CHANCE + 'on = "master" }', 31, "step[3].random-faults: no node 'master' here"),
        (CUT, CHANCE + 'every = "30 s" }', 31, "step[3].random-faults: the last fault would end at 90 s, after the scen"),
        (CUT, "random-faults = { count = 0 }", 31, "step[3].random-faults: count = 0: expected how many faults"),
        ("route-gone broker-a:master", "over cut", 26, "step[2].wait: over: no random faults of the label 'cut'"),
        ('drop = ["lost.SEND_OK"]', 'same = "x"\ndrop = []', 48, "hardened.same: same excludes all other keys"),
        ("[[step]]", "[[steps]]", 20, "steps: no such key; did you mean step?"),
        ('heal = "cut"', 'mark = "death"', 35, "step[4].mark: 'death' is the label of an earlier step, too"),
        ('heal = "cut"', f'mark = "{"x" * 201}"', 35, "step[4].mark: a mark of 201 characters: expected 1 to 200"),
        ('heal = "cut"', 'within = "5 s"\nheal = "cut"', 35, "step[4].within: nothing to limit: expected wait or run"),
        ('heal = "cut"', 'heal = "cut"\n[[step]]\nheal = "cut"', 37, "step[5].heal: the fault of 'cut' is not in force here"),
        (CUT, CHANCE[:-2].replace("2", "100_001") + " }", 31, "step[3].random-faults: count = 100001: expected 0 to 100000"),
        ('topic = "orders"', "topic = 5", 12, "workload[1].topic: 5: expected a text"),
        ('topic = "orders"', "work = 1", 12, "workload[1].work: no such key"),
        ('topic = "orders"', "count = '5'", 12, "workload[1].count: '5': expected a whole number"),
        ('topic = "orders"', "send_timeout = inf", 12, "workload[1].send_timeout: send_timeout = inf: expected more than 0, at most 2592000"),
        ('topic = "orders"', "send_timeout = 0", 12, "workload[1].send_timeout: send_timeout = 0.0: expected more than 0"),
        ('topic = "orders"', 'transaction = "comit"', 12, "workload[1].transaction: transaction = 'comit': expected commit"),
        ('start = "step"', 'from_where = "end"', 18, "workload[2].from_where: from_where = 'end': expected first or last"),
        ('after = "death"', 'after = "cut"\nbefore = "death"', 45, "expect[2].before: 'death' is not later than after, 'cut'"),
        (LOST + '\nequals = "0 messages"', LOST + '\nequals = "none"', 39, "expect[1].equals: 'none': expected a number of messages"),
        (LOST, LOST + '\nat_most = "1 messages"', 39, "expect[1].at_most: equals is an exact bound"),
        (LOST + '\nequals = "0', LOST + '\nat_most = "-1', 39, "expect[1].at_most: -1 messages: expected 0 messages or more"),
        (LOST + "\n", LOST + '\nsame_as = "lost.SEND_OK"\n', 39, "expect[1].same_as: lost.SEND_OK is always the same as"),
        (LOST + "\n", LOST + '\nsame_as = "divergence broker-a-s"\n', 39, "expect[1].same_as: divergence broker-a-s: expected a"),
        (LOST, 'metric = "write_unavailable orders@broker-z:0"', 38, "expect[1].metric: no broker 'broker-z' here"),
        (LOST, 'metric = "write_unavailable orders@broker-a"', 38, "expect[1].metric: no queue 'orders@broker-a': expected"),
        (CUT, CHANCE + "of = 3 }", 31, "step[3].random-faults: of = 3: expected an array of actions"),
        (CUT, 'random-faults = { every = "5 s" }', 31, "step[3].random-faults: count is missing: expected how many faults"),
        (CUT, 'add = ""', 31, "step[3].add: '': expected \"group\", \"slave broker-a\" or \"nameserver\""),
        ('heal = "cut"', 'mark = "begin"', 35, "step[4].mark: 'begin' is the label of the scenario's own begin"),
        ('at = "10 s"', 'at = "\u0663 s"', 21, "step[1].at: '\u0663 s': expected a number with a unit"),
        ("slaves = 1", 'node_settings."broker-x" = { slave_read_enable = true }', 6, "cluster: no broker 'broker-x' here"),
        ("[cluster]\nslaves = 1", '[cluster.node_settings."broker-x"]\nslave_read_enable = true', 6, "cluster: no broker 'broker-x'"),
        (LOST, LOST + '\ntake = "max"', 39, "expect[1].take: take is valid only with `event`"),
        (LOST, 'event = "sent"\nwhere = { outcome = [] }', 39, "expect[1].where: outcome = []: expected one value or more"),
        (LOST, 'event = "sent"\nwhere = { attempts = "2" }', 39, "expect[1].where: attempts = '2': expected a whole number"),
        (LOST, 'event = "sent"\nwhere = { topic = ["orders", 5] }', 39, "expect[1].where: topic = 5: expected a text"),
        (LOST, 'event = "sent"\ntake = "first"\nfield = "outcome"', 41, "expect[1].equals: '0 messages': expected a text, as outc"),
        (LOST, 'event = "sent"\ntake = "max"\nfield = "outcome"', 39, "expect[1].take: 'max' needs a field with numbers"),
        (LOST + '\nequals = "0 messages"', FIRST + 'field = "attempts"\nequals = "SEND_OK"', 41, "expect[1].equals: 'SEND_OK': expected a whole number"),
        (LOST + '\nequals = "0 messages"', FIRST + 'field = "attempts"\nequals = "3 min"', 41, "expect[1].equals: 180 s: attempts is no time"),
        (LOST + '\nequals = "0 messages"', 'event = "group_deleted"\ntake = "first"\nfield = "drops_offsets"\nequals = "yes"', 41, "expect[1].equals: 'yes': expected true or false"),
        ("[hardened]", "[hardend]", 47, "hardend: no such key; did you mean hardened?"),
    ],
)  # fmt: skip
def test_an_invalid_value_is_reported_with_line_key_and_expectation(
    old: str, new: str, line: int, message: str
) -> None:
    assert GOOD.count(old) >= 1
    with pytest.raises(ScenarioError) as caught:
        parse_scenario(GOOD.replace(old, new, 1), "x.toml")
    assert str(caught.value).startswith(f"x.toml:{line}: {message}"), str(caught.value)


def test_no_word_is_suggested_in_its_own_place() -> None:
    text = GOOD.replace(CUT, 'add = "slave"').replace('heal = "cut"', 'mark = "late"')
    with pytest.raises(ScenarioError, match=r"'slave': expected \"group\", \"slave broker-a\" or \"nameserver\"$"):
        parse_scenario(text)


def test_an_array_of_inline_tables_is_reported_with_its_line() -> None:
    text = 'name = "x"\nclaim = "y"\n\nstep = [{ kill = "broker-z" }]\n'
    with pytest.raises(ScenarioError, match=r"^x\.toml:4: step\[1\]\.kill: no node 'broker-z' here"):
        parse_scenario(text, "x.toml")
    with pytest.raises(ScenarioError, match=r"^x\.toml:3: workload\[1\]: expected a table, got 5"):
        parse_scenario('name = "x"\nclaim = "y"\nworkload = [5]\n', "x.toml")


def test_a_wait_for_more_sends_than_a_producer_makes_is_rejected() -> None:
    text = GOOD.replace('topic = "orders"', 'topic = "orders"\ncount = 5', 1)
    text = text.replace("route-gone broker-a:master", "sent orders {}")
    with pytest.raises(ScenarioError, match=r"step\[2\]\.wait: orders ends after 5 sends: expected at most 5"):
        parse_scenario(text.replace("{}", "6"), "x.toml")
    assert parse_scenario(text.replace("{}", "5")).steps[1].wait == "sent orders 5"
    again = text.replace("{}", "6") + '\n[[step]]\nrestart = "orders"\n'
    assert parse_scenario(again).steps[1].wait == "sent orders 6"


def test_a_metric_of_a_queue_can_be_expected() -> None:
    queue = 'metric = "write_unavailable orders@broker-a:0"\nat_most = "1 s"'
    scenario = parse_scenario(
        GOOD.replace(LOST + '\nequals = "0 messages"', queue).replace('drop = ["lost.SEND_OK"]', "")
    )
    assert scenario.expectations[0].metric == "write_unavailable orders@broker-a:0"


def test_a_bound_of_one_may_have_a_singular_unit() -> None:
    scenario = parse_scenario(GOOD.replace('equals = "0 messages"', 'at_least = "1 message"'))
    assert str(scenario.expectations[0].at_least) == "1 message"


def test_invalid_toml_and_missing_files_are_reported(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ScenarioError, match=r"x\.toml:1: not TOML: Invalid value"):
        parse_scenario("name = ", "x.toml")
    with pytest.raises(ScenarioError, match=r"x\.toml:2: not TOML: values are nested too deeply"):
        parse_scenario("\nname = " + "[" * 100_000 + "\n\n", "x.toml")
    with pytest.raises(ScenarioError, match=r"x\.toml:3: not TOML: a number has too many digits"):
        parse_scenario("a = 1\nb = [\n" + "9" * 6000 + ",\n]", "x.toml")
    with pytest.raises(ScenarioError, match=r"x\.toml:2: not TOML: Cannot overwrite a value \(column 11\)"):
        parse_scenario('name = "a"\nname = "b"\n', "x.toml")
    with pytest.raises(ScenarioError, match=r"none\.toml: No such file"):
        load_scenario(tmp_path / "none.toml")
    with pytest.raises(ScenarioError, match="claim is missing"):
        parse_scenario('name = "x"')


def test_a_step_may_not_be_before_the_one_above() -> None:
    text = GOOD.replace('wait = "route-gone', 'at = "5 s"\nwait = "route-gone')
    with pytest.raises(
        ScenarioError, match=r"step\[2\]\.at: 5 s is before the step above it, which is not before 10 s"
    ):
        parse_scenario(text)


def test_a_workload_that_waits_for_a_step_must_have_one() -> None:
    with pytest.raises(ScenarioError, match='late is never started: expected a step with consume = "late"'):
        parse_scenario(GOOD.replace('consume = "late"\n', ""))


def test_outside_faults_are_rejected_early_with_a_single_address() -> None:
    text = GOOD.replace("slaves = 1", "slaves = 1\nsingle_address = true").replace(
        '"broker-a-s", kind', '"outside", kind'
    )
    with pytest.raises(
        ScenarioError, match=r"step\[3\]\.fault: link: at a single address peers outside cannot be recognised"
    ):
        parse_scenario(text)


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            "[cluster.broker_settings]\nslaveReadEnable = true\n",
            "my.toml:9: cluster.broker_settings: unknown key slaveReadEnable; did you mean slave_read_enable?",
        ),
        (
            '[cluster.node_settings."broker-a-s"]\nslave_timeout = "soon"\n',
            "my.toml:9: cluster.node_settings: slave_timeout = 'soon': expected a whole number",
        ),
    ],
)
def test_a_setting_that_no_broker_accepts_is_reported_with_its_table(table: str, message: str) -> None:
    text = GOOD.replace("slaves = 1\n", f"slaves = 1\n\n{table}")
    with pytest.raises(ScenarioError) as raised:
        check_settings(parse_scenario(text, "my.toml"), text, "my.toml")
    assert str(raised.value).startswith(message)


def test_settings_of_steps_are_checked_before_the_start() -> None:
    text = GOOD.replace(CUT, 'change-settings = { target = "broker-a", slaveReadEnable = true }')
    text = text.replace('heal = "cut"', 'mark = "late"')
    with pytest.raises(
        ScenarioError, match=r"^my\.toml:31: step\[3\]\.change-settings: unknown key slaveReadEnable; did"
    ):
        check_settings(parse_scenario(text, "my.toml"), text, "my.toml")
    text = text.replace("slaveReadEnable", "slave_read_enable")
    check_settings(parse_scenario(text, "my.toml"), text, "my.toml")


@pytest.mark.parametrize(
    ("settings", "fault"),
    [
        ("flushDiskTyp = 'x'", "unknown key flushDiskTyp; did you mean flushDiskType?"),
        ("flush_disk_type = 'SYNC_FLUSH'", "unknown key flush_disk_type; did you mean flushDiskType?"),
        ("zzz = 1", "unknown key zzz; RocketMQ's settings files have no similar key; an example of one: listenPort"),
        ("slaveReadEnable = 'yes'", "slaveReadEnable = 'yes': expected true or false"),
        ("flushDiskType = true", "flushDiskType = 'true': expected ASYNC_FLUSH or SYNC_FLUSH"),
        ("slaveReadEnable = true, serveRequestsOf5x = false, brokerIP1 = '10.0.0.1'", ""),
    ],
)
def test_settings_of_set_config_are_checked_before_the_start(settings: str, fault: str) -> None:
    text = GOOD.replace(CUT, f'set-config = {{ target = "broker-a", settings = {{ {settings} }} }}')
    text = text.replace('heal = "cut"', 'mark = "late"')
    expected = pytest.raises(ScenarioError) if fault else contextlib.nullcontext()
    with expected as raised:
        check_settings(parse_scenario(text, "my.toml"), text, "my.toml")
    assert raised is None or str(raised.value) == f"my.toml:31: step[3].set-config: {fault}"


def test_settings_that_brokers_accept_pass() -> None:
    text = GOOD.replace("slaves = 1\n", "slaves = 1\nbroker_settings = { slave_read_enable = true }\n")
    check_settings(parse_scenario(text), text)


def test_a_byte_order_mark_does_not_hide_the_first_line(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "windows.toml"
    file.write_text(GOOD.replace('name = "', 'name = "../', 1), "utf-8-sig")
    with pytest.raises(ScenarioError, match=r"windows.toml:1: name: cluster name"):
        load_scenario(file)
