"""`ha_report_trouble` on a master: accepted reports, and remarks for senders."""

from typing import Any

import pytest

from rmqlab.broker.scripted import ScriptedPeer
from rmqlab.remoting.bodies.route import BrokerData, ClusterInfo
from rmqlab.remoting.codes import RequestCode, ResponseCode
from rmqlab.remoting.command import Command
from rmqlab.runtime.net.testing import ScriptedClient
from tests.broker.syncmaster import Master, Slave, StartMaster

NAMESERVER = "10.0.0.9:9876"
SWITCHES: dict[str, Any] = {
    "ha_report_trouble": True,
    "ha_fail_lost_slave_at_once": True,
    "in_sync_replicas": 2,
    "namesrv_addr": NAMESERVER,
}
FULL = "cannot append 9 bytes at 0: No space left on device"


def fields(port: int = 1, text: str = FULL, **changes: str) -> dict[str, str]:
    group = {"clusterName": "DefaultCluster", "brokerName": "broker-a", "brokerId": "1", "slaveName": "broker-a-s"}
    return {**group, "haPort": str(port), "text": text, **changes}


def ha_port(slave: Slave) -> int:
    return int(slave.stream.socket.getsockname()[1])


def report_of(master: Master, slave: Slave, **changes: str) -> ResponseCode:
    """Report as this slave; the code of the immediate reply."""
    peer, header = ScriptedPeer("127.0.0.1:50001"), fields(ha_port(slave), **changes)
    return ResponseCode(master.talk.ask(RequestCode.REPORT_SLAVE_TROUBLE, header, peer=peer).code)


async def code_after_lookup(master: Master, host: str, slave: Slave | None = None) -> ResponseCode:
    """Report from a host, and return the code after the question to the nameserver."""
    peer, header = ScriptedPeer(f"{host}:50001"), fields(1 if slave is None else ha_port(slave))
    assert master.talk.exchange(RequestCode.REPORT_SLAVE_TROUBLE, header, peer=peer) == []
    await master.talk.tasks.run_all()
    (reply,) = peer.replies
    return ResponseCode(reply.code)


def shown(master: Master) -> list[str]:
    return [one["text"] for one in master.ha.snapshot()["slave_troubles"]]


async def lose(master: Master, slave: Slave) -> None:
    lost = master.recorder.kinds.count("ha_disconnected")
    await slave.stream.aclose()
    await master.recorder.wait_until(lambda: master.recorder.kinds.count("ha_disconnected") > lost)


async def test_the_remark_of_a_waiting_send_names_the_trouble(start_master: StartMaster) -> None:
    """Issue 16, part 3: instead of "closed by the slave"."""
    master = start_master(**SWITCHES)
    slave = await master.slave(0)
    assert master.send() == []
    assert report_of(master, slave) is ResponseCode.SUCCESS
    assert master.talk.peer.replies == []
    await lose(master, slave)
    (reply,) = master.talk.peer.replies
    assert (reply.code, reply.remark) == (ResponseCode.SLAVE_NOT_AVAILABLE, f"slave broker-a-s: {FULL}")
    (later,) = master.send()
    assert (later.remark or "").endswith(f"no slave is connected; slave broker-a-s: {FULL}")


async def test_the_loss_of_a_slave_is_not_explained_by_the_trouble_of_another_host(start_master: StartMaster) -> None:
    master = start_master(**SWITCHES)
    slave = await master.slave(0)
    port = ha_port(slave)
    assert master.send() == []
    master.ha.troubles.note(2, "broker-a-s2", "10.0.0.2", FULL)
    await lose(master, slave)
    (reply,) = master.talk.peer.replies
    assert (reply.remark or "").startswith(f"slave 127.0.0.1:{port} is lost: ")


async def test_a_timeout_names_the_trouble_too_without_other_switches(start_master: StartMaster) -> None:
    master = start_master(ha_report_trouble=True)
    slave = await master.slave(0)
    assert master.send() == []
    report_of(master, slave, brokerId="2", slaveName="broker-a-s2")
    (reply,) = master.late()
    assert (reply.code, reply.remark) == (ResponseCode.FLUSH_SLAVE_TIMEOUT, f"slave broker-a-s2: {FULL}")


async def test_in_4_9_the_request_is_unknown(start_master: StartMaster) -> None:
    master = start_master()
    slave = await master.slave(0)
    for header in (fields(ha_port(slave)), {}):
        reply = master.talk.ask(RequestCode.REPORT_SLAVE_TROUBLE, header)
        assert reply.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED
        assert reply.remark == " request type 30001 not supported"
    assert shown(master) == []


async def test_a_connection_that_never_reported_is_no_slave(start_master: StartMaster) -> None:
    """Any peer can connect to the HA port. The nameserver does not know this one."""
    master = start_master(**SWITCHES)
    stranger = await master.slave()
    assert await code_after_lookup(master, "127.0.0.1", stranger) is ResponseCode.NO_PERMISSION
    assert shown(master) == []


async def test_another_host_cannot_report_for_a_slave(start_master: StartMaster) -> None:
    master = start_master(**SWITCHES)
    slave = await master.slave(0)
    assert await code_after_lookup(master, "10.6.6.6", slave) is ResponseCode.NO_PERMISSION
    assert shown(master) == []


def nameserver_replies(master: Master, reply: Command | None) -> None:
    """Let the nameserver reply to the master; None: it cannot be reached."""
    client: object = master.talk.broker.client
    assert isinstance(client, ScriptedClient)
    client.replies[NAMESERVER] = reply


@pytest.mark.parametrize(
    ("brokers", "group", "code"),
    [
        ({0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}, "broker-a", ResponseCode.SUCCESS),
        ({0: "10.0.0.1:10911", 1: "10.0.0.3:10911"}, "broker-a", ResponseCode.NO_PERMISSION),
        ({0: "10.0.0.2:10911", 2: "10.0.0.2:10911"}, "broker-a", ResponseCode.NO_PERMISSION),
        ({1: "10.0.0.2:10911"}, "broker-b", ResponseCode.NO_PERMISSION),
    ],
)
async def test_a_slave_without_a_connection_must_be_registered(
    start_master: StartMaster, brokers: dict[int, str], group: str, code: ResponseCode
) -> None:
    """For example one that follows another master by mistake, and rejects it."""
    master = start_master(**SWITCHES)
    data = BrokerData(cluster="DefaultCluster", broker_name=group, broker_addrs=brokers)
    body = ClusterInfo(broker_addr_table={group: data}).encode()
    nameserver_replies(master, Command(ResponseCode.SUCCESS, body=body))
    assert await code_after_lookup(master, "10.0.0.2") is code
    assert shown(master) == ([FULL] if code is ResponseCode.SUCCESS else [])


@pytest.mark.parametrize("reply", [None, Command(ResponseCode.SYSTEM_ERROR), Command(ResponseCode.SUCCESS, body=b"{")])
async def test_a_nameserver_without_routes_authorizes_no_slave(
    start_master: StartMaster, reply: Command | None
) -> None:
    master = start_master(**SWITCHES)
    nameserver_replies(master, reply)
    assert await code_after_lookup(master, "10.0.0.2") is ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"brokerName": "broker-b"}, ResponseCode.NO_PERMISSION),
        ({"clusterName": "Other"}, ResponseCode.NO_PERMISSION),
        ({"brokerId": "0"}, ResponseCode.SYSTEM_ERROR),
        ({"brokerId": "-1"}, ResponseCode.SYSTEM_ERROR),
        ({"text": ""}, ResponseCode.SYSTEM_ERROR),
        ({"slaveName": ""}, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_a_report_for_another_group_or_without_its_parts_is_refused(
    start_master: StartMaster, changes: dict[str, str], code: ResponseCode
) -> None:
    master = start_master(**SWITCHES)
    slave = await master.slave(0)
    assert report_of(master, slave, **changes) is code
    assert shown(master) == []


async def test_reports_above_the_rate_limit_are_rejected(start_master: StartMaster) -> None:
    master = start_master(**SWITCHES)
    slave = await master.slave(0)
    assert report_of(master, slave) is ResponseCode.SUCCESS
    assert report_of(master, slave, text="another") is ResponseCode.SYSTEM_BUSY
    assert shown(master) == [FULL]


async def test_a_hostile_text_is_one_short_line(start_master: StartMaster) -> None:
    master = start_master(**SWITCHES)
    slave = await master.slave(0)
    assert report_of(master, slave, text="full\r\n" + "x" * 10_000) is ResponseCode.SUCCESS
    (text,) = shown(master)
    assert text.startswith("full\\r\\nxx")
    assert len(text) == 200


async def test_it_is_forgotten_once_the_slave_replicates_on_a_new_connection(start_master: StartMaster) -> None:
    """Acknowledgements on the old connection and a first report do not count."""
    master = start_master(**SWITCHES)
    slave = await master.slave(0)
    master.talk.send("T", WAIT="false")
    master.ha.push()
    report_of(master, slave)
    await master.report(slave, master.end)
    assert shown(master) == [FULL]
    master.talk.send("T", WAIT="false")
    again = await master.slave(0)
    assert shown(master) == [FULL]
    await master.report(again, 10)
    assert shown(master) == []
    assert master.recorder.kinds[-1] == "slave_recovered"


async def test_a_slave_that_returns_with_all_of_the_log_is_back(start_master: StartMaster) -> None:
    """It has nothing more to acknowledge."""
    master = start_master(**SWITCHES)
    slave = await master.slave(0)
    report_of(master, slave)
    await lose(master, slave)
    await master.slave(master.end)
    assert shown(master) == []
