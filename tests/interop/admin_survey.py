"""Output of mqadmin commands for a cluster, normalised for comparison."""

import re
from collections.abc import Callable, Mapping

from tests.interop import rawrequest
from tests.interop.java import Java, Mqadmin
from tests.interop.topology import Cluster
from tests.interop.waiting import wait_until

TOPIC = "AdminTopic"
GROUP = "AdminGroup"
MESSAGES = 6
KEY = "admin-key"


def survey(java: Java, cluster: Cluster) -> Mapping[str, str]:
    """Make a topic, send, consume, look at it with every command, delete it.

    Maps labels to the printed texts.
    """
    with Mqadmin(java) as mqadmin:
        shown = _look(java, lambda command, *args: mqadmin.run(cluster.namesrv, command, *args), cluster)
    return {label: anonymous(text, cluster) for label, text in shown.items()}


def _look(java: Java, run: Callable[..., str], cluster: Cluster) -> dict[str, str]:
    shown: dict[str, str] = {}
    shown["updateTopic"] = run("updateTopic", "-c", cluster.cluster_name, "-t", TOPIC, "-r", "2", "-w", "2")
    wait_until(lambda: rawrequest.route_of(cluster.namesrv, TOPIC), f"route of {TOPIC}")
    target = [f"namesrv={cluster.namesrv}", f"topic={TOPIC}", f"count={MESSAGES}"]
    with java.start("Producer", *target) as producer:
        message_id = producer.finish()[0].split()[-1]
    # Kept running until its offsets are committed: one that ends after its last message may not have noted that yet.
    for_ever = [f"namesrv={cluster.namesrv}", f"topic={TOPIC}", "count=1000000", "timeoutMillis=600000"]
    with java.start("Consumer", *for_ever, f"group={GROUP}"):
        wait_until(lambda: "Diff Total: 0" in run("consumerProgress", "-g", GROUP), "all is consumed and committed")
    wait_until(lambda: "CODE: 206" in run("consumerConnection", "-g", GROUP), "the consumer is gone")
    one_queue = ["-b", cluster.broker_name, "-i", "1"]
    shown["sendMessage"] = run("sendMessage", "-t", TOPIC, "-p", "hello", "-k", KEY, "-c", "TagB", *one_queue)
    # Statistics are sampled every ten seconds.
    wait_until(
        lambda: rawrequest.runtime_info(cluster.slave.address)["msgPutTotalTodayNow"] != "0", "the slave has counted"
    )
    for label, args in {
        "clusterList": [],
        "topicList": [],
        "topicList -c": ["-c"],
        "topicRoute": ["-t", TOPIC],
        "topicStatus": ["-t", TOPIC],
        "brokerStatus master": ["-b", cluster.master.address],
        "brokerStatus slave": ["-b", cluster.slave.address],
        "getBrokerConfig master": ["-b", cluster.master.address],
        "getBrokerConfig slave": ["-b", cluster.slave.address],
        "consumerProgress": [],
        "consumerProgress -g": ["-g", GROUP],
        "queryMsgById": ["-i", message_id],
        "queryMsgById unknown": ["-i", message_id[:16] + "000000000FFFFFFF"],
        "queryMsgByKey": ["-t", TOPIC, "-k", KEY],
        "queryMsgByKey unknown": ["-t", TOPIC, "-k", "no-such-key"],
        "printMsg": ["-t", TOPIC, "-d", "true"],
        "topicRoute unknown": ["-t", "NoSuchTopic"],
    }.items():
        shown[label] = run(label.split()[0], *args)
    shown["deleteTopic"] = run("deleteTopic", "-c", cluster.cluster_name, "-t", TOPIC)
    shown["topicRoute deleted"] = run("topicRoute", "-t", TOPIC)
    shown["topicList deleted"] = run("topicList")
    return shown


def anonymous(text: str, cluster: Cluster) -> str:
    """Names for what differs between any two clusters: addresses, paths, ids, times.

    Blanks collapse.

    Of a refusal its code counts; what a server says to it is its own, and no client reads that.
    """
    for what, name in (
        (cluster.master.address, "MASTER"),
        (cluster.slave.address, "SLAVE"),
        (str(cluster.master.store), "MASTER_STORE"),
        (str(cluster.slave.store), "SLAVE_STORE"),
    ):
        text = text.replace(what, name)
    for pattern, name in (
        (r"\b(?:[0-9A-F]{56}|[0-9A-F]{32})\b", "MESSAGE_ID"),
        (r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:,\d+)?\b", "TIME"),
        (r"\b1[789]\d{11}\b", "MILLIS"),
        (r"\b\d+\.\d+\.\d+\.\d+:\d+\b", "HOST"),
        (r"\bV4_9_\d\b", "VERSION"),
        (r"DESC: ?.*", "DESC"),
        (r"\n(For more information|See http).*", ""),
        (r"[ \t]+", " "),
    ):
        text = re.sub(pattern, name, text)
    return "\n".join(line.strip() for line in text.splitlines())


_OF_OTHERS = re.compile(
    r"\b(?!Admin)\w+(?:Topic|Group)\b"  # how our Java programs' topics and groups are named
    r"|-[0-9a-f]{8}\b"  # and those of our Python client
    r"|\bRMQ_SYS_TRANS_\w+"  # made by a real broker when it is a minute old
)


def without_other_tests(text: str) -> str:
    """Leave out the lines about what this survey did not make."""
    return "\n".join(line for line in text.splitlines() if not _OF_OTHERS.search(line))


def properties(text: str) -> dict[str, str]:
    """Parse `key : value` or `key = value` lines of brokerStatus and getBrokerConfig."""
    found = re.finditer(r"^([^\s:=]+(?: \S+)?) ?[:=] ?(.*)$", text, re.MULTILINE)
    return {match[1]: match[2] for match in found}
