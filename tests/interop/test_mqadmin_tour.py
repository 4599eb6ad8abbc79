"""Each further command of mqadmin 4.9.8 prints of our cluster what it prints of a real one, figures aside.

broker-requests section 6.1. What is left out: commands that never end (clusterRT, startMonitoring), those of a trace
topic (queryMsgTraceById: it is off), consumeMessage a second time (it works once in each process), and access control
while it is on (test_acl_and_sql92.py).
"""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.interop.admin_tour import form, tour
from tests.interop.java import Java
from tests.interop.realrocketmq import RealCluster
from tests.interop.topology import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]  # the first test of all takes both tours

LISTS_OF_KEYS = ("getNamesrvConfig", "getBrokerConfig -c", "brokerStatus -c")
LABELS = (
    "updateTopic -b", "updateTopic -o", "updateSubGroup -b", "updateSubGroup -c", "topicRoute -t", "topicClusterList",
    "getConsumerConfig", "clusterList -m", "consumerConnection", "consumerConnection unknown", "producerConnection",
    "producerConnection unknown", "consumerProgress -s", "consumerProgress unknown", "consumerStatus", "producer",
    "queryMsgByUniqueKey", "queryMsgByUniqueKey -a", "queryMsgByUniqueKey unknown", "queryMsgByOffset",
    "queryMsgById -g -d", "printMsgByQueue", "queryCq", "queryCq -g", "consumeMessage -c", "brokerConsumeStats",
    "statsAll", "allocateMQ", "sendMsgStatus", "checkMsgSendRT", "resetOffsetByTime now", "resetOffsetByTime -c",
    "skipAccumulatedMessage", "resetOffsetByTime offline", "skipAccumulatedMessage offline", "cloneGroupOffset",
    "consumerProgress cloned", "updateKvConfig", "deleteKvConfig", "updateOrderConf put", "updateOrderConf get",
    "topicRoute ordered", "updateOrderConf delete", "wipeWritePerm", "topicRoute wiped", "addWritePerm",
    "topicRoute added", "updateBrokerConfig", "updateTopicPerm", "updateNamesrvConfig", "updateAclConfig off",
    "deleteAclConfig off", "cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog", "exportMetadata",
    "exportConfigs", "exportConfigs file", "exportMetrics", "deleteSubGroup", "deleteTopic", "topicStatus deleted",
)  # fmt: skip
EXPORTS = ("exportMetadata file", "exportMetrics file")
"""Documents that list all topics and groups, those of other tests, too."""

Shown = Mapping[str, str]
_tours: dict[str, Shown] = {}


def toured(java: Java, cluster: Cluster, scratch: Path) -> Shown:
    """One tour of each cluster serves all tests."""
    if cluster.namesrv not in _tours:
        scratch.mkdir(exist_ok=True)
        _tours[cluster.namesrv] = tour(java, cluster, scratch)
    return _tours[cluster.namesrv]


@pytest.fixture
def real(java: Java, real_shared: RealCluster, tmp_path: Path) -> Shown:
    return toured(java, real_shared, tmp_path / "real")


@pytest.fixture
def seen(java: Java, shared: Cluster, tmp_path: Path) -> Shown:
    return toured(java, shared, tmp_path / "seen")


@pytest.mark.parametrize("label", LABELS)
def test_command_prints_the_same_form(real: Shown, seen: Shown, label: str) -> None:
    assert form(seen[label]) == form(real[label])


@pytest.mark.parametrize("label", LISTS_OF_KEYS)
def test_list_names_every_key_that_the_real_one_names(real: Shown, seen: Shown, label: str) -> None:
    """Ours has a few of its own."""
    assert keys(real[label]) - keys(seen[label]) == set()


@pytest.mark.parametrize("label", EXPORTS)
def test_export_has_the_same_members(real: Shown, seen: Shown, label: str) -> None:
    """broker-requests section 6.1: what is said of this test's own topic, and the members above it."""
    assert members(seen[label]) == members(real[label])
    assert "AdminTourTopic" in real["exportMetadata file"]


def test_no_command_is_left_out(real: Shown) -> None:
    assert real.keys() == {*LABELS, *LISTS_OF_KEYS, *EXPORTS}


def keys(text: str) -> set[str]:
    """The first word of each `key = value` or `broker key : value` line."""
    return set(re.findall(r"^(?:MASTER |SLAVE )?(\w+) ?[:=]", text, re.MULTILINE))


def members(text: str) -> set[str]:
    """The names in a JSON document that are no topic's, group's or broker's."""
    return {name for name in re.findall(r'"(\w+)":', text) if name[0].islower()}
