"""A broker of one kind at a nameserver of the other."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop import kinds, rawrequest
from tests.interop.conftest import MIXED_WITH_ALL
from tests.interop.java import Java, Mqadmin
from tests.interop.realrocketmq import SMALL_FILES
from tests.interop.server import BROKER_NAME, CLUSTER, BrokerServer
from tests.interop.waiting import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

# Far below the 120 seconds after which a silent broker is dropped: what comes so soon has another cause.
SOON = 30.0


@pytest.fixture(params=MIXED_WITH_ALL, ids="-".join)
def registered(request: pytest.FixtureRequest, java: Java, tmp_path: Path) -> Iterator[BrokerServer]:
    """A master, registered: (kind of the nameserver, kind of the broker)."""
    at, of = request.param
    with (
        kinds.nameserver(at, java, tmp_path) as nameserver,
        kinds.broker(of, java, tmp_path, nameserver.address, settings=SMALL_FILES) as broker,
    ):
        yield broker


def test_broker_and_its_topics_are_in_the_route(mqadmin: Mqadmin, registered: BrokerServer) -> None:
    """clusterList asks the broker itself, at the address that the nameserver gave.

    A new topic is known at once.
    """
    listed = mqadmin.run(registered.namesrv, "clusterList").splitlines()[-1].split()
    assert listed[:4] == [CLUSTER, BROKER_NAME, "0", registered.address]
    mqadmin.run(registered.namesrv, "updateTopic", "-b", registered.address, "-t", "NewTopic", "-r", "3", "-w", "3")
    wait_until(lambda: rawrequest.route_of(registered.namesrv, "NewTopic"), "route of the new topic", SOON)
    shown = mqadmin.run(registered.namesrv, "topicRoute", "-t", "NewTopic")
    assert f'0:"{registered.address}"' in shown
    assert '"readQueueNums":3' in shown
    assert "NewTopic" in mqadmin.run(registered.namesrv, "topicList").split()


def test_a_route_is_removed_and_restored_with_its_broker(registered: BrokerServer) -> None:
    """A graceful stop unregisters.

    A kill -9 closes the connection, which is enough (remoting#4.13).
    """
    assert registered.is_in_route()
    registered.stop()
    wait_until(lambda: not registered.is_in_route(), "a stopped broker is out of the route", SOON)  # 5.3.3: soon after
    registered.start()
    assert registered.is_in_route()
    registered.kill()
    wait_until(lambda: not registered.is_in_route(), "a killed broker is out of the route", SOON)
    registered.start()
    assert registered.is_in_route()
