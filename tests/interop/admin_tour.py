"""mqadmin's other commands, each run once, with an active producer and consumer."""

import functools
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.interop import rawrequest
from tests.interop.admin_survey import anonymous
from tests.interop.java import Java, Mqadmin
from tests.interop.topology import Cluster
from tests.interop.waiting import wait_until

TOPIC = "AdminTourTopic"
ORDERED = "AdminTourOrderTopic"
GROUP = "AdminTourGroup"
OTHER_GROUP = "AdminOtherGroup"
OFFLINE_GROUP = "AdminOfflineGroup"
MESSAGES = 6
FOR_EVER = ["count=1000000", "timeoutMillis=600000"]

Run = Callable[..., str]


def tour(java: Java, cluster: Cluster, scratch: Path) -> Mapping[str, str]:
    """Ask everything.

    Maps labels to the printed texts, with names for values that differ between clusters.
    """
    target = [f"namesrv={cluster.namesrv}", f"topic={TOPIC}"]
    with Mqadmin(java) as mqadmin:

        def run(command: str, *args: str) -> str:
            return mqadmin.run(cluster.namesrv, command, *args)

        shown = _prepare(run, cluster)
        with java.start("Producer", *target, f"count={MESSAGES}") as producer:
            sent = [line.split() for line in producer.finish()[:MESSAGES]]
        with java.start("Consumer", *target, f"group={GROUP}", *FOR_EVER) as consumer:
            wait_until(lambda: len(consumer.lines) > MESSAGES, "all messages are consumed")
            wait_until(lambda: "Diff Total: 0" in run("consumerProgress", "-g", GROUP), "their offsets are committed")
            shown |= _look_at_clients(run)
            shown |= _look_at_messages(run, cluster, sent, _client_id(run))
            shown |= _move_offsets_online(run)
        shown |= _move_offsets_offline(run)
        shown |= _change_settings(run, cluster)
        shown |= _export(run, cluster, scratch)
        shown |= _clean_up(run, cluster)
    return {label: anonymous(text, cluster) for label, text in shown.items()}


def _client_id(run: Run) -> str:
    """The consumer's, from the line below the heading."""
    return next(line.split()[0] for line in run("consumerConnection", "-g", GROUP).splitlines()[1:])


def _prepare(run: Run, cluster: Cluster) -> dict[str, str]:
    master, in_cluster = ["-b", cluster.master.address], ["-c", cluster.cluster_name]
    shown = {
        "updateTopic -b": run("updateTopic", *master, "-t", TOPIC, "-r", "2", "-w", "2"),
        "updateTopic -o": run("updateTopic", *master, "-t", ORDERED, "-r", "2", "-w", "2", "-o", "true"),
        "updateSubGroup -b": run("updateSubGroup", *master, "-g", GROUP, "-r", "5", "-q", "2"),
        "updateSubGroup -c": run(
            "updateSubGroup", *in_cluster, "-g", OTHER_GROUP, "-s", "true", "-m", "true", "-d", "false"
        ),
    }
    for topic in (TOPIC, ORDERED):
        wait_until(functools.partial(rawrequest.route_of, cluster.namesrv, topic), f"route of {topic}")
    return shown | {
        "topicRoute -t": run("topicRoute", "-t", ORDERED),
        "topicClusterList": run("topicClusterList", "-t", TOPIC),
        "getConsumerConfig": run("getConsumerConfig", "-g", GROUP),
        "clusterList -m": run("clusterList", "-m"),
        "getNamesrvConfig": run("getNamesrvConfig"),
        "getBrokerConfig -c": run("getBrokerConfig", *in_cluster),
        "brokerStatus -c": run("brokerStatus", *in_cluster),
    }


def _look_at_clients(run: Run) -> dict[str, str]:
    return {
        "consumerConnection": run("consumerConnection", "-g", GROUP),
        "consumerConnection unknown": run("consumerConnection", "-g", "NoSuchGroup"),
        "producerConnection": run("producerConnection", "-g", "CLIENT_INNER_PRODUCER", "-t", TOPIC),
        "producerConnection unknown": run("producerConnection", "-g", "NoSuchGroup", "-t", TOPIC),
        "consumerProgress -s": run("consumerProgress", "-g", GROUP, "-s", "true"),
        "consumerProgress unknown": run("consumerProgress", "-g", "NoSuchGroup"),
        "consumerStatus": run("consumerStatus", "-g", GROUP, "-i", _client_id(run)),
    }


def _look_at_messages(run: Run, cluster: Cluster, sent: list[list[str]], client_id: str) -> dict[str, str]:
    master, queue = ["-b", cluster.master.address], ["-b", cluster.broker_name, "-i", "1"]
    unique_key, offset_id = sent[0][1], sent[0][5]
    unknown_key = unique_key[:-4] + "FFFF"
    return {
        "producer": run("producer", *master),
        "queryMsgByUniqueKey": run("queryMsgByUniqueKey", "-i", unique_key, "-t", TOPIC),
        "queryMsgByUniqueKey -a": run("queryMsgByUniqueKey", "-i", unique_key, "-t", TOPIC, "-a"),
        "queryMsgByUniqueKey unknown": run("queryMsgByUniqueKey", "-i", unknown_key, "-t", TOPIC),
        "queryMsgByOffset": run("queryMsgByOffset", "-t", TOPIC, *queue, "-o", "0"),
        "queryMsgById -g -d": run("queryMsgById", "-i", offset_id, "-g", GROUP, "-d", client_id),
        "printMsgByQueue": run(
            "printMsgByQueue", "-t", TOPIC, "-a", cluster.broker_name, "-i", "1", "-p", "true", "-d", "true"
        ),
        "queryCq": run("queryCq", "-t", TOPIC, "-q", "1", "-i", "0", "-c", "2", *master),
        "queryCq -g": run("queryCq", "-t", TOPIC, "-q", "1", "-i", "0", "-c", "2", *master, "-g", GROUP),
        "consumeMessage -c": run("consumeMessage", "-t", TOPIC, "-c", "3"),
        "brokerConsumeStats": run("brokerConsumeStats", *master),
        "statsAll": run("statsAll", "-t", TOPIC),
        "allocateMQ": run("allocateMQ", "-t", TOPIC, "-i", "1.2.3.4,1.2.3.5"),
        "sendMsgStatus": run("sendMsgStatus", "-b", cluster.broker_name, "-s", "64", "-c", "2"),
        "checkMsgSendRT": run("checkMsgSendRT", "-t", TOPIC, "-a", "3", "-s", "64"),
    }


def _move_offsets_online(run: Run) -> dict[str, str]:
    reset = ["-g", GROUP, "-t", TOPIC, "-s"]
    return {
        "resetOffsetByTime now": run("resetOffsetByTime", *reset, "now"),
        "resetOffsetByTime -c": run("resetOffsetByTime", *reset, "now", "-c"),
        "skipAccumulatedMessage": run("skipAccumulatedMessage", "-g", GROUP, "-t", TOPIC),
    }


def _move_offsets_offline(run: Run) -> dict[str, str]:
    wait_until(lambda: "CODE: 206" in run("consumerConnection", "-g", GROUP), "the consumer is gone")
    shown = {
        "resetOffsetByTime offline": run("resetOffsetByTime", "-g", GROUP, "-t", TOPIC, "-s", "1700000000000"),
        "skipAccumulatedMessage offline": run("skipAccumulatedMessage", "-g", GROUP, "-t", TOPIC),
        "cloneGroupOffset": run("cloneGroupOffset", "-s", GROUP, "-d", OFFLINE_GROUP, "-t", TOPIC, "-o", "true"),
    }
    return shown | {"consumerProgress cloned": run("consumerProgress", "-g", OFFLINE_GROUP)}


def _change_settings(run: Run, cluster: Cluster) -> dict[str, str]:
    master, name = ["-b", cluster.master.address], ["-b", cluster.broker_name]
    order = ["-t", ORDERED, "-m"]
    return {
        "updateKvConfig": run("updateKvConfig", "-s", "NS_ADMIN", "-k", "key1", "-v", "value one"),
        "deleteKvConfig": run("deleteKvConfig", "-s", "NS_ADMIN", "-k", "key1"),
        "updateOrderConf put": run("updateOrderConf", *order, "put", "-v", f"{cluster.broker_name}:2"),
        "updateOrderConf get": run("updateOrderConf", *order, "get"),
        "topicRoute ordered": run("topicRoute", "-t", ORDERED),
        "updateOrderConf delete": run("updateOrderConf", *order, "delete"),
        "wipeWritePerm": run("wipeWritePerm", *name),
        "topicRoute wiped": run("topicRoute", "-t", TOPIC),
        "addWritePerm": run("addWritePerm", *name),
        "topicRoute added": run("topicRoute", "-t", TOPIC),
        "updateBrokerConfig": run("updateBrokerConfig", *master, "-k", "longPollingEnable", "-v", "true"),
        "updateTopicPerm": run("updateTopicPerm", *master, "-t", ORDERED, "-p", "4"),
        "updateNamesrvConfig": run("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "false"),
        "updateAclConfig off": run("updateAclConfig", *master, "-a", "newcomer", "-s", "12345678"),
        "deleteAclConfig off": run("deleteAclConfig", *master, "-a", "newcomer"),
        "cleanExpiredCQ": run("cleanExpiredCQ", *master),
        "cleanUnusedTopic": run("cleanUnusedTopic", *master),
        "deleteExpiredCommitLog": run("deleteExpiredCommitLog", *master),
    }


def _export(run: Run, cluster: Cluster, scratch: Path) -> dict[str, str]:
    """Return the printed text, and the text of each written file."""
    shown = {}
    for command, file in (("exportMetadata", "metadata"), ("exportConfigs", "configs"), ("exportMetrics", "metrics")):
        shown[command] = run(command, "-c", cluster.cluster_name, "-f", str(scratch)).replace(str(scratch), "SCRATCH")
        written = next(iter(scratch.glob(f"*{file}*")), None)
        shown[f"{command} file"] = "nothing written" if written is None else written.read_text()
    return shown


def _clean_up(run: Run, cluster: Cluster) -> dict[str, str]:
    in_cluster = ["-c", cluster.cluster_name]
    shown = {
        "deleteSubGroup": run("deleteSubGroup", *in_cluster, "-g", OTHER_GROUP),
        "deleteTopic": run("deleteTopic", *in_cluster, "-t", TOPIC),
        "topicStatus deleted": run("topicStatus", "-t", TOPIC),
    }
    run("deleteTopic", *in_cluster, "-t", ORDERED)
    return shown


def form(text: str) -> list[str]:
    """What must be alike: words and columns.

    Figures, the order of lines, and names of Java's objects are of the moment.
    """
    for pattern, name in (
        (r"(?:/0x[0-9a-f]+)?@[0-9a-f]+\b(?!#)", "@OBJECT"),
        (r"[\w.]+@\d+#\d+", "CLIENT"),
        (r"(?<![\w.])-?\d+(?:\.\d+)?(?:E-?\d+)?(?=ms\b|\b)", "N"),
        (r"N(?: N)+", "N"),
    ):
        text = re.sub(pattern, name, text)
    # Retry topics are listed once a consumer has committed their empty queues: a matter of time.
    return sorted(line for line in text.splitlines() if "%RETRY%" not in line)
