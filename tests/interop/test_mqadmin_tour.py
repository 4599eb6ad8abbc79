"""Output of mqadmin 4.9.8's other commands for our cluster and a real one.

Figures may differ. broker-requests section 6.1. What is left out: commands that never end (clusterRT, startMonitoring),
those of a trace topic (queryMsgTraceById: it is off), and access control while it is on (test_acl_and_sql92.py).
"""

import re
from collections.abc import Iterator, Mapping

import pytest

from tests.interop.admin_tour import form, tour
from tests.interop.java import Java
from tests.interop.ours import our_cluster
from tests.interop.realrocketmq import real_cluster

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(600)]  # the first test of all takes both tours

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

# Each tour has a cluster of its own: several commands list all topics and groups, those of other tests too.


@pytest.fixture(scope="module")
def real(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with real_cluster(java, tmp_path_factory.mktemp("real")) as cluster:
        yield tour(java, cluster, tmp_path_factory.mktemp("exports"))


@pytest.fixture(scope="module")
def seen(java: Java, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    with our_cluster(tmp_path_factory.mktemp("ours")) as cluster:
        yield tour(java, cluster, tmp_path_factory.mktemp("exports"))


@pytest.mark.parametrize("label", LABELS)
def test_command_prints_the_same_form(real: Shown, seen: Shown, label: str) -> None:
    assert form(seen[label]) == form(real[label])


@pytest.mark.parametrize("label", LISTS_OF_KEYS)
def test_list_names_every_key_that_the_real_one_names(real: Shown, seen: Shown, label: str) -> None:
    """Ours has a few of its own."""
    assert keys(real[label]) - keys(seen[label]) == set()


@pytest.mark.parametrize("label", EXPORTS)
def test_export_has_the_same_members(real: Shown, seen: Shown, label: str) -> None:
    """broker-requests section 6.1: members of this test's topic, and those above it."""
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
