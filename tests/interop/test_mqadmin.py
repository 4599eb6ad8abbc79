"""mqadmin 4.9.8 shows our cluster as a real one: same form, same fixed values."""

import re
from collections.abc import Callable, Mapping

import pytest

from tests.interop.admin_survey import properties, survey, without_other_tests
from tests.interop.java import Java
from tests.interop.realrocketmq import RealCluster
from tests.interop.topology import Cluster

pytestmark = pytest.mark.interop

Survey = Mapping[str, str]

# Settings that say where and how this very broker runs, or that the real one was given for these tests.
_OWN_SETTINGS = {
    *("rocketmqHome", "namesrvAddr", "brokerIP1", "brokerIP2", "listenPort", "haListenPort", "brokerName"),
    *("storePathRootDir", "storePathCommitLog", "mappedFileSizeCommitLog", "mappedFileSizeConsumeQueue"),
    *("diskMaxUsedSpaceRatio", "brokerConfigPath", "messageStorePlugIn"),
}
_FOR_TOOLS_OF_5X = {"brokerActive", "getTransferredTps"}  # which fail without them


@pytest.fixture(scope="module")
def surveyed(java: Java) -> Callable[[Cluster], Survey]:
    done: dict[str, Survey] = {}

    def survey_once(cluster: Cluster) -> Survey:
        if cluster.namesrv not in done:
            done[cluster.namesrv] = survey(java, cluster)
        return done[cluster.namesrv]

    return survey_once


@pytest.fixture
def real(surveyed: Callable[[Cluster], Survey], real_shared: RealCluster) -> Survey:
    return surveyed(real_shared)


@pytest.fixture
def seen(surveyed: Callable[[Cluster], Survey], shared: Cluster) -> Survey:
    return surveyed(shared)


@pytest.mark.parametrize(
    "label",
    [
        "updateTopic",
        "topicRoute",
        "topicRoute unknown",
        "topicStatus",
        "queryMsgByKey",
        "queryMsgByKey unknown",
        "deleteTopic",
        "topicRoute deleted",
    ],
)
def test_command_prints_what_it_prints_of_a_real_cluster(real: Survey, seen: Survey, label: str) -> None:
    """broker-requests#6.1"""
    assert seen[label] == real[label]


@pytest.mark.parametrize("label", ["topicList", "topicList -c", "topicList deleted"])
def test_topic_list_has_the_same_topics(real: Survey, seen: Survey, label: str) -> None:
    """In any order: the nameserver's tables are unordered."""
    assert sorted(without_other_tests(seen[label]).splitlines()) == sorted(
        without_other_tests(real[label]).splitlines()
    )


def test_message_sent_by_mqadmin_is_acknowledged(real: Survey, seen: Survey) -> None:
    assert "SEND_OK" in seen["sendMessage"]
    assert seen["sendMessage"] == real["sendMessage"]


def test_cluster_list_shows_both_brokers_with_their_version(real: Survey, seen: Survey) -> None:
    """Rates and times differ.

    Columns, ids, addresses and the presence of every figure must not.
    """
    assert _without_figures(seen["clusterList"]) == _without_figures(real["clusterList"])


@pytest.mark.parametrize("broker", ["master", "slave"])
def test_broker_status_has_the_same_keys(real: Survey, seen: Survey, broker: str) -> None:
    ours, theirs = (properties(text[f"brokerStatus {broker}"]).keys() for text in (seen, real))
    assert theirs - ours == set()
    assert ours - theirs <= _FOR_TOOLS_OF_5X


@pytest.mark.parametrize("broker", ["master", "slave"])
def test_broker_status_says_what_was_put_and_taken(seen: Survey, broker: str) -> None:
    """A slave counts what it received from its master as put."""
    status = properties(seen[f"brokerStatus {broker}"])
    assert status["dispatchBehindBytes"] == "0"
    assert int(status["commitLogMaxOffset"]) > int(status["commitLogMinOffset"]) >= 0
    assert int(status["msgPutTotalTodayNow"]) > 0
    assert int(status["putMessageTimesTotal"]) > 1
    assert float(status["putMessageAverageSize"]) > 100
    if broker == "master":
        assert int(status["msgGetTotalTodayNow"]) > 0


@pytest.mark.parametrize("broker", ["master", "slave"])
def test_broker_settings_have_the_real_defaults(real: Survey, seen: Survey, broker: str) -> None:
    ours, theirs = (properties(text[f"getBrokerConfig {broker}"]) for text in (seen, real))
    differing = {key: (ours[key], theirs[key]) for key in ours.keys() & theirs.keys() if ours[key] != theirs[key]}
    assert differing.keys() - _OWN_SETTINGS == set(), differing
    assert theirs.keys() - ours.keys() == set()


def test_consumer_progress_shows_the_group(real: Survey, seen: Survey) -> None:
    """No member is online any more, and one message of mqadmin is left."""
    assert _without_figures(without_other_tests(seen["consumerProgress"])) == _without_figures(
        without_other_tests(real["consumerProgress"])
    )
    assert _without_rates(seen["consumerProgress -g"]) == _without_rates(real["consumerProgress -g"])
    assert "Diff Total: 1" in seen["consumerProgress -g"]


def test_message_is_found_by_its_id(real: Survey, seen: Survey) -> None:
    """Same record: only its place in the log differs, for what was written before it."""
    assert _without_place(seen["queryMsgById"]) == _without_place(real["queryMsgById"])
    assert _without_place(seen["queryMsgById unknown"]) == _without_place(real["queryMsgById unknown"])


def test_print_msg_shows_every_message_of_every_queue(real: Survey, seen: Survey) -> None:
    """Queue by queue, in any order of queues."""
    ours, theirs = (sorted(_without_place(text["printMsg"]).splitlines()) for text in (seen, real))
    assert ours == theirs
    assert sum("MSGID" in line for line in ours) == 7


def _without_figures(text: str) -> str:
    return re.sub(r"\b\d+(?:\.\d+)?\b", "N", text)


def _without_rates(text: str) -> str:
    """Remove rates, and the retry topic, whose listing depends on time.

    It is listed once a consumer has committed its empty queue.
    """
    text = "\n".join(line for line in text.splitlines() if not line.startswith("%RETRY%"))
    return re.sub(r"\b\d+\.\d+\b", "N.N", text)


def _without_place(text: str) -> str:
    """A producer begins with a queue of its choice, so message m-0 may be in either."""
    place = r"(commitLogOffset=|CommitLog Offset: ?|^Queue ID: |^MSGID.* queueId=|MIN_OFFSET=\d+, MAX_OFFSET=)\d+"
    return re.sub(r"/tmp/\S+", "FILE", re.sub(place, r"\1N", text, flags=re.MULTILINE))
