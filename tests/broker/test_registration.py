"""Registration with nameservers: when, with what, and what is made of the answer.

No sockets.
"""

import pathlib

import pytest
import trio
import trio.testing

from rmqlab.broker.scripted import ScriptedTasks
from rmqlab.remoting.bodies.runtime import KVTable
from rmqlab.remoting.bodies.topic import DataVersion, TopicConfig
from rmqlab.remoting.codes import RequestCode
from rmqlab.runtime.net.testing import ScriptedClient
from tests.broker.registrations import (
    FIRST,
    LateClient,
    MuteClient,
    open_registration,
    registered_body,
    registration_reply,
)


async def test_it_registers_at_start_ten_seconds_later_and_then_every_thirty(
    tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock
) -> None:
    """remoting#42."""
    assert autojump_clock.rate == 0.0
    client = ScriptedClient()
    registration, _ = open_registration(tmp_path, client)
    with trio.move_on_after(75):
        await registration.register_forever()
    times = [at for at, address, _ in client.asked if address == "n1:9876"]
    assert times == [0, 10, 40, 70]
    command = client.asked[0][2]
    assert command.code == RequestCode.REGISTER_BROKER
    assert command.version >= 37
    assert "TBW102" in registered_body(command).topic_config_serialize_wrapper.topic_config_table


async def test_the_registration_rate_is_fixed_despite_slow_replies(
    tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock
) -> None:
    """BrokerController: scheduleAtFixedRate, 10 s after the first registration ended."""
    assert autojump_clock.rate == 0.0
    client = MuteClient(seconds=6)
    registration, _ = open_registration(tmp_path, client, register_name_server_period=10_000)
    with trio.move_on_after(50):
        await registration.register_forever()
    assert [at for at, address, _ in client.asked if address == "n1:9876"] == [0, 16, 26, 36, 46]


async def test_a_registration_longer_than_its_period_causes_no_burst(
    tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock
) -> None:
    assert autojump_clock.rate == 0.0
    client = MuteClient(seconds=25)
    registration, _ = open_registration(tmp_path, client, register_name_server_period=10_000)
    with trio.move_on_after(115):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(registration.register_forever)
            await trio.sleep(80)
            client.seconds = 0
    assert [at for at, address, _ in client.asked if address == "n1:9876"] == [0, 35, 60, 85, 95, 105]


async def test_the_first_registration_of_a_member_names_no_master_to_it(
    tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock
) -> None:
    """dledger#52: RocketMQ's is oneway; the periodic one 10 s later names it."""
    assert autojump_clock.rate == 0.0
    good = registration_reply({"masterAddr": "m:10911"})
    registration, masters = open_registration(tmp_path, ScriptedClient({FIRST: good}), namesrv_addr=FIRST)
    may_begin = trio.Event()
    may_begin.set()
    with trio.move_on_after(9):
        await registration.register_forever(may_begin)
    assert registration.registered
    assert masters == []
    with trio.move_on_after(11):
        await registration.register_forever(may_begin)
    assert masters == [("m:10911", None)]


async def test_every_live_nameserver_is_notified_although_one_is_dead(tmp_path: pathlib.Path) -> None:
    client = ScriptedClient({"n1:9876": None})
    registration, _ = open_registration(tmp_path, client)
    await registration._register(is_forced=True)
    assert {address for _, address, _ in client.asked} == {"n1:9876", "n2:9876"}
    assert registration.registered == {"n2:9876"}


async def test_nothing_is_ready_while_no_nameserver_answers(tmp_path: pathlib.Path) -> None:
    client = ScriptedClient({"n1:9876": None, "n2:9876": None})
    registration, _ = open_registration(tmp_path, client)
    await registration._register(is_forced=True)
    assert not registration.all_registered.is_set()


async def test_the_first_valid_reply_sets_the_master_of_a_slave(tmp_path: pathlib.Path) -> None:
    """remoting#25."""
    fields = {"masterAddr": "m:10911", "haServerAddr": "m:10912"}
    client = ScriptedClient({"n1:9876": None, "n2:9876": registration_reply(fields)})
    registration, masters = open_registration(tmp_path, client)
    await registration._register(is_forced=True)
    assert masters == [("m:10911", "m:10912")]


async def test_of_several_replies_the_one_that_arrives_first_names_the_master(
    tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock
) -> None:
    """As in BrokerOuterAPI: a nameserver that lacks the master does not hide it."""
    assert autojump_clock.rate == 0
    named = registration_reply({"masterAddr": "m:10911", "haServerAddr": "m:10912"})
    client = LateClient({"n1:9876": 0.2, "n2:9876": 0.1}, {"n1:9876": registration_reply({}), "n2:9876": named})
    registration, masters = open_registration(tmp_path, client)
    await registration._register(is_forced=True)
    client.seconds["n2:9876"] = 0.3
    await registration._register(is_forced=True)
    assert masters == [("m:10911", "m:10912"), (None, None)]


async def test_an_answer_without_a_master_clears_it(tmp_path: pathlib.Path) -> None:
    registration, masters = open_registration(tmp_path, ScriptedClient())
    await registration._register(is_forced=True)
    assert masters == [(None, None)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [(b"", True), (KVTable(table={}).encode(), False), (KVTable(table={"BenchmarkTest": "b:4"}).encode(), True)],
    ids=["no table changes nothing", "an empty table clears all", "a listed topic is ordered"],
)
async def test_order_topics_follow_the_answer(tmp_path: pathlib.Path, body: bytes, expected: bool) -> None:  # noqa: FBT001
    """remoting#28."""
    registration, _ = open_registration(
        tmp_path, ScriptedClient({FIRST: registration_reply({}, body)}), namesrv_addr=FIRST
    )
    registration.topics.apply_order_topics(["BenchmarkTest"])
    await registration._register(is_forced=True)
    topic = registration.topics.get("BenchmarkTest")
    assert topic is not None
    assert topic.order is expected


async def test_a_created_topic_is_registered_alone_with_the_new_version(tmp_path: pathlib.Path) -> None:
    client = ScriptedClient()
    tasks = ScriptedTasks()
    registration, _ = open_registration(tmp_path, client, tasks)
    registration.topics.create_plain("orders", 4)
    registration.register_soon("orders")
    await tasks.run_all()
    wrapper = registered_body(client.asked[0][2]).topic_config_serialize_wrapper
    assert list(wrapper.topic_config_table) == ["orders"]
    assert wrapper.data_version == registration.topics.data_version


@pytest.mark.parametrize(("oneway", "expected"), [(False, {"orders", "bills"}), (True, None)])
async def test_changes_of_one_moment_are_registered_at_once(
    tmp_path: pathlib.Path,
    oneway: bool,  # noqa: FBT001
    expected: set[str] | None,
) -> None:
    """Nameservers would ignore topics of the second registration with one version."""
    client, notified = ScriptedClient(), []
    tasks = ScriptedTasks()
    registration, _ = open_registration(tmp_path, client, tasks)
    for topic in ("orders", "bills"):
        registration.topics.create_plain(topic, 4)
        registration.register_soon(topic, then=lambda topic=topic: notified.append((topic, len(client.asked))))  # type: ignore[misc]
    if oneway:
        registration.register_soon(oneway=True)
    assert notified == []
    await tasks.run_all()
    assert sorted(address for _, address, _ in client.asked) == ["n1:9876", "n2:9876"]
    wrapper = registered_body(client.asked[0][2]).topic_config_serialize_wrapper
    assert wrapper.topic_config_table.keys() == (expected or registration.topics.topics.keys())
    assert notified == [("orders", 2), ("bills", 2)], "callbacks run after the replies"


async def test_oneway_registrations_of_one_moment_become_one(tmp_path: pathlib.Path) -> None:
    client = ScriptedClient()
    tasks = ScriptedTasks()
    registration, _ = open_registration(tmp_path, client, tasks)
    for _ in range(5):
        registration.register_soon(oneway=True)
    await tasks.run_all()
    assert sorted(address for address, _ in client.oneways) == ["n1:9876", "n2:9876"]


async def test_many_topics_made_by_sends_are_registered_together_after_a_pause(
    tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    """Issue 12.13: the first at once, the others after a time.

    The time grows with the table. All topics are in the last registration.
    """
    assert autojump_clock.rate == 0.0
    client = ScriptedClient()
    registration, _ = open_registration(tmp_path, client, nursery)
    every = registration.topics.topics
    every.update({f"T{n}": TopicConfig(topic_name=f"T{n}") for n in range(5000)})
    for number in range(30):
        every[f"N{number}"] = TopicConfig(topic_name=f"N{number}")
        registration.register_soon(oneway=True)
        await trio.sleep(0.01)
    await trio.sleep(1)
    sent = [registered_body(command) for address, command in client.oneways if address == "n1:9876"]
    tables = [body.topic_config_serialize_wrapper.topic_config_table for body in sent]
    assert 3 <= len(tables) <= 5
    assert "N0" in tables[0]
    assert "N1" not in tables[0]
    assert tables[-1].keys() == every.keys()


async def test_a_requested_registration_does_not_wait_for_a_pause(
    tmp_path: pathlib.Path, autojump_clock: trio.testing.MockClock, nursery: trio.Nursery
) -> None:
    assert autojump_clock.rate == 0.0
    registration, _ = open_registration(tmp_path, ScriptedClient(), nursery)
    registration.topics.topics.update({f"T{n}": TopicConfig(topic_name=f"T{n}") for n in range(50_000)})
    done = trio.Event()
    registration.register_soon(oneway=True)
    await trio.sleep(0.01)
    registration.register_soon(oneway=True)
    await trio.sleep(0.01)
    registration.register_soon("T7", then=done.set)
    await done.wait()
    assert trio.current_time() == pytest.approx(0.02)


async def test_a_restricted_broker_registers_its_permission_for_every_topic(tmp_path: pathlib.Path) -> None:
    client = ScriptedClient()
    registration, _ = open_registration(tmp_path, client, broker_permission=4)
    await registration._register(is_forced=True)
    table = registered_body(client.asked[0][2]).topic_config_serialize_wrapper.topic_config_table
    assert {topic.perm for topic in table.values()} == {4}


async def test_a_broker_with_the_right_to_inherit_registers_topics_as_they_are(tmp_path: pathlib.Path) -> None:
    """BrokerController: one that may not be read or written replaces them."""
    client = ScriptedClient()
    registration, _ = open_registration(tmp_path, client, broker_permission=7)
    await registration._register(is_forced=True)
    table = registered_body(client.asked[0][2]).topic_config_serialize_wrapper.topic_config_table
    assert table == registration.topics.topics
    assert {topic.perm for topic in table.values()} == {6, 7}


async def test_the_compressed_form_carries_the_same_topics(tmp_path: pathlib.Path) -> None:
    """remoting#22."""
    client = ScriptedClient()
    registration, _ = open_registration(tmp_path, client, compressed_register=True)
    await registration._register(is_forced=True)
    table = registered_body(client.asked[0][2]).topic_config_serialize_wrapper.topic_config_table
    assert table.keys() == registration.topics.topics.keys()


async def test_unforced_it_asks_for_the_version_first_and_stays_silent_where_it_is_known(
    tmp_path: pathlib.Path,
) -> None:
    client = ScriptedClient()
    registration, _ = open_registration(tmp_path, client)
    known = registration_reply({"changed": "false"}, registration.topics.data_version.encode())
    client.replies = {"n1:9876": known, "n2:9876": known}
    await registration._register(is_forced=False)
    assert {command.code for _, _, command in client.asked} == {RequestCode.QUERY_DATA_VERSION}
    client.replies["n2:9876"] = registration_reply({"changed": "true"})
    await registration._register(is_forced=False)
    assert [command.code for _, _, command in client.asked].count(RequestCode.REGISTER_BROKER) == 2


async def test_unforced_it_registers_where_the_version_differs_from_ours(tmp_path: pathlib.Path) -> None:
    """BrokerOuterAPI.needRegister compares the version in the body, not `changed`."""
    other = registration_reply({"changed": "false"}, DataVersion(timestamp=1, counter=99).encode())
    client = ScriptedClient({("n1:9876", RequestCode.QUERY_DATA_VERSION): other})
    client.replies["n2:9876"] = registration_reply({"changed": "false"})
    registration, _ = open_registration(tmp_path, client)
    await registration._register(is_forced=False)
    assert [command.code for _, _, command in client.asked].count(RequestCode.REGISTER_BROKER) == 2


async def test_an_unforced_registration_is_sent_to_all_if_a_version_query_fails(tmp_path: pathlib.Path) -> None:
    client = ScriptedClient()
    registration, _ = open_registration(tmp_path, client)
    client.replies = {
        "n1:9876": registration_reply({"changed": "false"}, registration.topics.data_version.encode()),
        "n2:9876": None,
    }
    await registration._register(is_forced=False)
    assert {address for _, address, command in client.asked if command.code == RequestCode.REGISTER_BROKER} == {
        "n1:9876",
        "n2:9876",
    }


async def test_unregistering_asks_each_nameserver_in_turn(tmp_path: pathlib.Path) -> None:
    client = ScriptedClient({"n1:9876": None})
    registration, _ = open_registration(tmp_path, client)
    await registration.unregister()
    assert [address for _, address, _ in client.asked] == ["n1:9876", "n2:9876"]
    assert {command.code for _, _, command in client.asked} == {RequestCode.UNREGISTER_BROKER}
