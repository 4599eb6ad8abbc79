"""mqadmin commands that fail, find nothing, or find a dead master, each run once."""

import json
from collections.abc import Mapping

from tests.interop import rawrequest
from tests.interop.admin_survey import anonymous
from tests.interop.java import Java, Mqadmin
from tests.interop.topology import Cluster
from tests.interop.waiting import wait_until

NOBODY = "127.0.0.1:1"
"""An address where nothing listens."""

ALL_ALIVE = """
updateTopic -c {cluster} -t FailTopic -r 2 -w 2
updateTopic -c NoCluster -t FailTopic
updateTopic -b {slave} -t FailTopic
updateTopic -b {nobody} -t FailTopic
updateTopic -b {master} -t FailNoQueues -r 0 -w 0
updateTopic -b {master} -t FailNegative -r -1 -w -1
updateTopic -b {master} -t FailMany -r 1000 -w 1000
updateTopic -b {master} -t FailPerm -p 999
updateTopic -b {master} -t bad$topic
updateTopic -b {master} -t TBW102
updateTopic -b {master} -t {cluster}
updateTopic -b {master} -t %DLQ%FailGroup -p 2
updateTopic -c {cluster} -t FailUnit -u true -s true
updateTopic -c {cluster} -t FailOrder -o true -r 3 -w 3
updateOrderConf -t FailOrder -m get
updateTopic -c {cluster} -t FailOrder -o false
updateOrderConf -t FailOrder -m get
topicRoute -t FailMany -l
topicRoute -t FailNegative
topicRoute -t FailPerm
topicRoute -t FailUnit
topicRoute -t %DLQ%FailGroup
topicRoute -t SCHEDULE_TOPIC_XXXX
topicStatus -t NoTopic
topicStatus -t FailNoQueues
topicClusterList -t NoTopic
updateTopicPerm -b {master} -t FailTopic -p 4
updateTopicPerm -b {master} -t FailTopic -p 4
sendMessage -t FailTopic -p x -b {broker} -i 0
updateTopicPerm -b {slave} -t FailTopic -p 6
updateTopicPerm -b {master} -t NoTopic -p 6
updateTopicPerm -b {nobody} -t FailTopic -p 6
updateTopicPerm -c {cluster} -t FailTopic -p 6
sendMessage -t FailTopic -p body -k key -c TagA -b {broker} -i 0
sendMessage -t FailTopic -p x -i 0
sendMessage -t FailTopic -p x -b NoBroker -i 0
sendMessage -t FailTopic -p x -b {broker} -i 99
sendMessage -t SCHEDULE_TOPIC_XXXX -p x
queryMsgByOffset -t FailTopic -b {broker} -i 0 -o 0
queryMsgByOffset -t FailTopic -b {broker} -i 0 -o 99
queryMsgByOffset -t FailTopic -b {broker} -i 9 -o 0
queryMsgByOffset -t FailTopic -b NoBroker -i 0 -o 0
queryMsgByOffset -t NoTopic -b {broker} -i 0 -o 0
queryMsgById -i zz
queryMsgByKey -t FailTopic -k key
queryMsgByKey -t NoTopic -k key
queryMsgByUniqueKey -i zz -t FailTopic
queryMsgTraceById -i ABC
printMsg -t NoTopic
printMsg -t FailTopic -s TagX
printMsg -t FailTopic -b 4000000000000
printMsg -t FailTopic -e 1
printMsgByQueue -t FailTopic -a {broker} -i 0 -p true -d true -f true
printMsgByQueue -t FailTopic -a {broker} -i 77 -p true
consumeMessage -t FailTopic -b {broker} -i 0 -o 99
consumeMessage -t FailTopic -b {broker} -i 0 -o -5
consumeMessage -t FailTopic -b {broker} -i 55
consumeMessage -t FailTopic -b NoBroker -i 0
consumeMessage -t NoTopic
queryCq -t FailTopic -q 0 -i 0
queryCq -t FailTopic -q 0 -i 0 -b {slave}
queryCq -t FailTopic -q 0 -i 99 -b {master}
queryCq -t FailTopic -q 0 -i 0 -c -1 -b {master}
queryCq -t FailTopic -q 0 -i 0 -b {master} -g NoGroup
queryCq -t NoTopic -q 0 -i 0 -b {master}
updateOrderConf -t NoTopic -m get
updateOrderConf -t FailTopic -m put -v garbage
updateOrderConf -t FailTopic -m get
updateOrderConf -t FailTopic -m delete
updateOrderConf -t FailTopic -m delete
updateKvConfig -s FAIL -k k -v äß=;:
deleteKvConfig -s FAIL -k nokey
deleteKvConfig -s NoNamespace -k k
updateSubGroup -c {cluster} -g FailGroup -s false -m true -d true -q 3 -r 7 -i 2 -w 3 -a false
updateSubGroup -c NoCluster -g FailGroup
updateSubGroup -b {slave} -g FailGroup
updateSubGroup -b {nobody} -g FailGroup
updateSubGroup -b {master} -g Fail$Group
getConsumerConfig -g FailGroup
getConsumerConfig -g NoGroup
consumerConnection -g FailGroup
consumerConnection -g FailGroup -b {slave}
consumerConnection -g FailGroup -b {nobody}
consumerProgress -g FailGroup
consumerStatus -g FailGroup
consumerStatus -g FailGroup -i nobody
producerConnection -g NoGroup -t FailTopic
producerConnection -g NoGroup -t NoTopic
producer -b {nobody}
resetOffsetByTime -g FailGroup -t FailTopic -s now
resetOffsetByTime -g FailGroup -t NoTopic -s now
resetOffsetByTime -g FailGroup -t FailTopic -s garbage
skipAccumulatedMessage -g NoGroup -t FailTopic
cloneGroupOffset -s NoGroup -d FailGroup -t FailTopic
deleteSubGroup -b {slave} -g FailGroup
deleteSubGroup -c {cluster} -g NoGroup
deleteSubGroup -b {master} -g FailGroup -r true
updateBrokerConfig -b {master} -k noSuchKey -v 1
updateBrokerConfig -b {nobody} -k a -v b
updateBrokerConfig -c NoCluster -k a -v b
updateNamesrvConfig -k kvConfigPath -v x
brokerStatus -b {nobody}
brokerStatus -c NoCluster
getBrokerConfig -b {nobody}
getBrokerConfig -c NoCluster
wipeWritePerm -b NoBroker
addWritePerm -b NoBroker
cleanExpiredCQ -c NoCluster
cleanUnusedTopic -b {nobody}
deleteExpiredCommitLog -b {slave}
brokerConsumeStats -b {slave} -l 1
brokerConsumeStats -b {nobody}
allocateMQ -t NoTopic -i 1.2.3.4
deleteAclConfig -c NoCluster -a nobody
deleteTopic -c {cluster} -t NoTopic
deleteTopic -c {cluster} -t TBW102
deleteTopic -c NoCluster -t FailTopic
help updateTopic
"""

MASTER_DEAD = """
clusterList
topicRoute -t FailTopic
topicRoute -t FailTopic -l
topicClusterList -t FailTopic
topicStatus -t FailTopic
updateTopic -c {cluster} -t FailLater
updateTopic -b {slave} -t FailLater
updateTopicPerm -c {cluster} -t FailTopic -p 4
updateSubGroup -c {cluster} -g FailLater
sendMessage -t FailTopic -p x -b {broker} -i 0
queryMsgByOffset -t FailTopic -b {broker} -i 0 -o 0
queryMsgByKey -t FailTopic -k key
printMsg -t FailTopic
printMsgByQueue -t FailTopic -a {broker} -i 0 -p true -d true
queryCq -t FailTopic -q 0 -i 0 -b {slave}
getConsumerConfig -g FailLater
consumerProgress -g FailLater
resetOffsetByTime -g FailLater -t FailTopic -s now
brokerConsumeStats -b {slave}
producer -b {slave}
allocateMQ -t FailTopic -i 1.2.3.4
wipeWritePerm -b {broker}
topicRoute -t FailTopic
addWritePerm -b {broker}
updateBrokerConfig -b {slave} -k noSuchKey -v 1
deleteExpiredCommitLog -b {slave}
deleteTopic -c {cluster} -t FailTopic
topicRoute -t FailTopic
"""


def labels() -> list[str]:
    """Return the names of all commands.

    They are the words, marked where the same words came before.
    """
    return [name for part in (ALL_ALIVE, MASTER_DEAD) for name in _named(part)]


def _named(part: str) -> dict[str, str]:
    prefix = "dead: " if part is MASTER_DEAD else ""
    named: dict[str, str] = {}
    for line in part.strip().splitlines():
        name = prefix + line
        while name in named:
            name += " (again)"
        named[name] = line
    return named


def failures(java: Java, cluster: Cluster) -> Mapping[str, str]:
    """Run every command, those of the second list after the master was killed.

    Maps labels to the printed texts, with names for values that differ between clusters.
    """
    shown: dict[str, str] = {}
    with Mqadmin(java) as mqadmin:

        def run(name: str, line: str) -> None:
            words = line.format(
                cluster=cluster.cluster_name, broker=cluster.broker_name, master=cluster.master.address,
                slave=cluster.slave.address, nobody=NOBODY,
            )  # fmt: skip
            shown[name] = anonymous(mqadmin.run(cluster.namesrv, *words.split()), cluster)

        for name, line in _named(ALL_ALIVE).items():
            run(name, line)
        wait_until(
            lambda: _fail_topic(cluster.slave.address) == _fail_topic(cluster.master.address),
            "the slave has copied the topic",
        )
        cluster.kill_master()
        wait_until(
            lambda: rawrequest.route_of(cluster.namesrv, "FailTopic")[cluster.broker_name].keys() == {1},
            "only the slave is in the route",
        )
        for name, line in _named(MASTER_DEAD).items():
            run(name, line)
    return shown


def _fail_topic(broker: str) -> object:
    """Return a broker's configuration of FailTopic."""
    topics = json.loads(rawrequest.ask(broker, rawrequest.GET_ALL_TOPIC_CONFIG, {}).body)
    return topics["topicConfigTable"].get("FailTopic")
