"""Our nameserver with real brokers and mqadmin 4.9: registration, stop, crash."""

import re
from collections.abc import Callable, Iterator

import attrs
import pytest

from tests.interop.java import Java, Mqadmin
from tests.interop.ours import OurNameserver
from tests.interop.realrocketmq import SMALL_FILES, RealBroker
from tests.interop.server import BROKER_NAME, CLUSTER, wait_replicating
from tests.interop.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long]


@attrs.frozen
class Pair:
    """A real master and slave, with an mqadmin bound to our nameserver."""

    admin: Callable[..., str]
    master: RealBroker
    slave: RealBroker

    def broker_ids(self) -> list[tuple[str, str]]:
        """Give (broker id, address) as `clusterList` prints them."""
        return re.findall(rf"{CLUSTER}\s+{BROKER_NAME}\s+(\d)\s+(\S+)", self.admin("clusterList"))

    def perms(self, topic: str) -> list[str]:
        """Give the permissions in a topic's route."""
        return re.findall(r'"perm":(\d)', self.admin("topicRoute", "-t", topic))


@pytest.fixture(scope="module")
def pair(java: Java, mqadmin: Mqadmin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("nameserver")
    with (
        OurNameserver(directory) as nameserver,
        RealBroker(java, directory, nameserver.address, settings=SMALL_FILES) as master,
        RealBroker(java, directory, nameserver.address, broker_id=1, settings=SMALL_FILES) as slave,
    ):

        def admin(command: str, *arguments: str) -> str:
            return mqadmin.run(nameserver.address, command, *arguments)

        wait_replicating(master.address)  # the slave has learnt the HA address of its master
        yield Pair(admin, master, slave)


def test_a_pair_registers_and_the_slave_finds_its_master(pair: Pair) -> None:
    """remoting#40, #41."""
    assert sorted(pair.broker_ids()) == [("0", pair.master.address), ("1", pair.slave.address)]
    listed = pair.admin("topicList", "-c")
    assert {"TBW102", "SELF_TEST_TOPIC", "broker-a"} <= {line.split()[1] for line in listed.splitlines()[1:]}


def test_topics_with_and_without_order_are_created_and_found(pair: Pair) -> None:
    """remoting#41.

    Deleting comes last of this file: mqadmin asks a slave too, and is refused there.
    """
    for order in ((), ("-o", "true")):
        name = f"NsTopic{len(order)}"
        assert "create topic to" in pair.admin("updateTopic", "-c", CLUSTER, "-t", name, "-r", "2", "-w", "2", *order)
        assert pair.perms(name) == ["6"]
        assert pair.admin("topicClusterList", "-t", name) == CLUSTER
    broker_order = pair.admin("updateTopic", "-b", pair.master.address, "-t", "NsOrdered", "-r", "2", "-o", "true")
    assert f"orderConf=[{BROKER_NAME}:" in broker_order
    assert f"orderConf=[{BROKER_NAME}:" in pair.admin("updateOrderConf", "-t", "NsOrdered", "-m", "get")


def test_write_permission_is_wiped_and_added(pair: Pair) -> None:
    """remoting#36, #41."""
    assert re.search(r"OK, \d+", pair.admin("wipeWritePerm", "-b", BROKER_NAME))
    assert pair.perms("TBW102") == ["5"]
    assert re.search(r"OK, \d+", pair.admin("addWritePerm", "-b", BROKER_NAME))
    assert pair.perms("TBW102") == ["6"]


def test_keys_and_settings_are_changed(pair: Pair) -> None:
    """remoting#39, #41."""
    assert "success" in pair.admin("updateKvConfig", "-s", "NS", "-k", "k", "-v", "a value")
    assert "success" in pair.admin("deleteKvConfig", "-s", "NS", "-k", "k")
    assert "success" in pair.admin("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
    assert re.search(r"orderMessageEnable\s+=\s+true", pair.admin("getNamesrvConfig"))
    assert "CODE: 16" in pair.admin("updateNamesrvConfig", "-k", "kvConfigPath", "-v", "/elsewhere")


def test_a_stopped_slave_and_a_killed_master_leave_the_route_at_once(pair: Pair) -> None:
    """remoting#30, #31, #40, #41. Last of this file: it ends the pair."""
    pair.slave.stop()
    assert pair.broker_ids() == [("0", pair.master.address)]
    pair.admin("updateTopic", "-c", CLUSTER, "-t", "NsGone")
    assert "from NameServer success" in pair.admin("deleteTopic", "-c", CLUSTER, "-t", "NsGone")
    assert "CODE: 17" in pair.admin("topicRoute", "-t", "NsGone")
    pair.master.kill()
    wait_until(lambda: pair.broker_ids() == [], "the cluster list is empty")
