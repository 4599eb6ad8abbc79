"""Requests of tools to brokers: topics, groups, progress, settings, unknown codes."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tests.interop.differential.case import Case, Corpus
from tests.interop.differential.mutations import BOOL, GROUP, INT, LONG, TEXT, TOPIC, mutated
from tests.interop.differential.wire import ROCKETMQ

_UNSERVED = [
    *range(-1, 61),
    *range(100, 110),
    *range(200, 230),
    *range(300, 330),
    343,
    345,
    351,
    352,
    361,
    401,
    905,
    907,
    32_767,
]
_SERVED = {
    *(10, 11, 12, 14, 15, 17, 21, 25, 26, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 41, 42, 43, 45, 46),
    *(50, 51, 52, 53, 200, 201, 202, 203, 204, 207, 208, 215, 222, 223, 300, 303, 305, 306, 307, 308, 309, 310),
    *(314, 315, 316, 317, 320, 321, 323, 324, 325, 328, 329),
}


def cases(to: str) -> Corpus:
    return [
        *_topics(to),
        *_groups(to),
        *_progress(to),
        *_passed_on(to),
        *_runtime(to),
        *_settings(to),
        *_access(to),
        *_housekeeping(to),
        *_unserved(to),
    ]


def _topics(to: str) -> Iterator[Case]:
    plain = {
        "topic": "DiffMade",
        "defaultTopic": "TBW102",
        "readQueueNums": "2",
        "writeQueueNums": "2",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }
    kinds: Mapping[str, tuple[object, ...]] = {
        "topic": (*TOPIC, "SCHEDULE_TOPIC_XXXX", "broker-a", "DefaultCluster", "rmq_sys_x", "RMQ_SYS_TRACE_TOPIC"),
        "defaultTopic": TOPIC,
        "readQueueNums": INT,
        "writeQueueNums": INT,
        "perm": INT,
        "topicFilterType": ("", "MULTI_TAG", "XX", "single_tag", "1"),
        "topicSysFlag": INT,
        "order": BOOL,
    }
    huge = ("2147483647",)
    yield from mutated(Case(f"{to} topic", to, 17, plain), kinds, leave={"readQueueNums": huge, "writeQueueNums": huge})
    yield Case(f"{to} topics after changes", to, 21)
    yield from mutated(Case(f"{to} topic stats", to, 202, {"topic": "DiffQueues"}), {"topic": TOPIC})
    for topic in ("DiffEmpty", "DiffMade", "DiffAsym"):
        yield Case(f"{to} topic stats of {topic}", to, 202, {"topic": topic})
    deletes = {"topic": (*TOPIC, "broker-a", "DefaultCluster", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x")}
    yield from mutated(Case(f"{to} delete topic", to, 215, {"topic": "DiffMade"}), deletes)
    yield Case(f"{to} topics after deletes", to, 21)
    yield Case(f"{to} system topics", to, 305)


def _groups(to: str) -> Iterator[Case]:
    for name, body in {
        "plain": b'{"groupName":"DiffG1"}',
        "whole": json.dumps(
            {
                "groupName": "DiffG2",
                "consumeEnable": False,
                "consumeFromMinEnable": False,
                "consumeBroadcastEnable": False,
                "retryQueueNums": 3,
                "retryMaxTimes": 2,
                "brokerId": 7,
                "whichBrokerWhenConsumeSlowly": 8,
                "notifyConsumerIdsChangedEnable": False,
            }
        ).encode(),
        "text for numbers": b'{"groupName":"DiffG3","retryQueueNums":"3","consumeEnable":"false","brokerId":"x"}',
        "text for numbers 2": b'{"groupName":"DiffG4","retryQueueNums":"3","consumeEnable":"false"}',
        "of 5.x": b'{"groupName":"DiffG5","groupRetryPolicy":{"type":"CUSTOMIZED"},"groupSysFlag":0,"attributes":{}}',
        "no name": b"{}",
        "empty name": b'{"groupName":""}',
        "odd name": b'{"groupName":"a b/c"}',
        "null": b"null",
        "list": b"[]",
        "junk": b"junk",
        "nothing": b"",
        "changed": b'{"groupName":"DiffG1","retryMaxTimes":5}',
        "the same": b'{"groupName":"DiffG1","retryMaxTimes":5}',
        "negative": b'{"groupName":"DiffG6","retryQueueNums":-1,"retryMaxTimes":-1}',
    }.items():
        yield Case(f"{to} group {name}", to, 200, None, body)
    yield Case(f"{to} groups after changes", to, 201)
    yield Case(f"{to} groups, binary", to, 201, codec=ROCKETMQ)
    delete = Case(f"{to} delete group", to, 207, {"groupName": "DiffG1", "removeOffset": "true"})
    yield from mutated(delete, {"groupName": GROUP, "removeOffset": BOOL})
    yield Case(f"{to} groups after deletes", to, 201)


def _progress(to: str) -> Iterator[Case]:
    yield Case(
        f"{to} commit for progress",
        to,
        15,
        {"consumerGroup": "DiffGroup", "topic": "DiffOne", "queueId": "0", "commitOffset": "2"},
    )
    for code, plain, kinds in (
        (208, {"consumerGroup": "DiffGroup", "topic": "DiffOne"}, {"consumerGroup": GROUP, "topic": TOPIC}),
        (300, {"topic": "DiffOne"}, {"topic": TOPIC}),
        (303, {"topic": "DiffOne", "group": "DiffGroup"}, {"topic": TOPIC, "group": GROUP}),
        (317, {"isOrder": "false"}, {"isOrder": BOOL}),
        (
            308,
            {"filterGroups": "DiffX", "compareGroup": "DiffGroup", "topic": "DiffOne"},
            {"compareGroup": GROUP, "topic": TOPIC},
        ),
        (
            314,
            {"srcGroup": "DiffGroup", "destGroup": "DiffClone", "topic": "DiffOne", "offline": "false"},
            {"srcGroup": GROUP, "destGroup": GROUP, "topic": TOPIC, "offline": BOOL},
        ),
    ):
        yield from mutated(
            Case(f"{to} progress {code}", to, code, plain), kinds, leave={"topic": ("",)} if code == 314 else None
        )
    yield Case(f"{to} offsets after clones", to, 43)


def _passed_on(to: str) -> Iterator[Case]:
    text = {"topic": TOPIC, "group": GROUP}
    plain = {"topic": "DiffOne", "group": "DiffGroup", "timestamp": "0", "isForce": "true"}
    yield from mutated(Case(f"{to} reset", to, 222, plain), {**text, "timestamp": LONG, "isForce": BOOL})
    yield from mutated(
        Case(f"{to} status", to, 223, {"topic": "DiffOne", "group": "DiffNobody", "clientAddr": "x"}),
        {**text, "clientAddr": TEXT},
    )
    running = {"consumerGroup": "DiffNobody", "clientId": "x", "jstackEnable": "false"}
    yield from mutated(
        Case(f"{to} running", to, 307, running), {"consumerGroup": GROUP, "clientId": TEXT, "jstackEnable": BOOL}
    )
    direct = {"consumerGroup": "DiffNobody", "clientId": "x", "msgId": "7F000001" + "0" * 24, "brokerName": "broker-a"}
    kinds = {"consumerGroup": GROUP, "clientId": TEXT, "msgId": (*TEXT, "7F0000010002"), "brokerName": TEXT}
    yield from mutated(Case(f"{to} consume", to, 309, direct), kinds)


def _keys(value: Any) -> Any:
    table = value["table"]
    return sorted(table)


def _runtime(to: str) -> Iterator[Case]:
    yield Case(f"{to} runtime", to, 28, show=_keys)
    yield Case(f"{to} runtime, binary", to, 28, codec=ROCKETMQ, show=_keys)
    stats = Case(f"{to} stats", to, 315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "NoSuchTopic"})
    yield from mutated(stats, {"statsName": (*TEXT, "NO_SUCH_STATS"), "statsKey": TEXT})
    for name in (
        "TOPIC_PUT_NUMS",
        "TOPIC_PUT_SIZE",
        "QUEUE_PUT_NUMS",
        "GROUP_GET_NUMS",
        "SNDBCK_PUT_NUMS",
        "BROKER_PUT_NUMS",
    ):
        yield Case(f"{to} stats of {name}", to, 315, {"statsName": name, "statsKey": "NoSuchKey"})
    for name, key in (("QUEUE_PUT_NUMS", "SCHEDULE_TOPIC_XXXX@0"), ("BROKER_PUT_NUMS", "DefaultCluster")):
        yield Case(f"{to} stats of {name} by {key}", to, 315, {"statsName": name, "statsKey": key}, show=sorted)
    for code in (43, 45, 201, 21):
        yield Case(f"{to} table {code} with odd fields", to, code, {"x": "y"}, b"junk")


def _settings(to: str) -> Iterator[Case]:
    for name, body in {
        "nothing": b"",
        "unknown key": b"noSuchKey=5\n",
        "of a broker": b"longPollingEnable=true\n",
        "a home": b"rocketmqHome=/tmp/x\n",
        "a config path": b"brokerConfigPath=/tmp/x\n",
        "a comment": b"# nothing\n! nothing\n",
        "line feeds": b"\r\nlongPollingEnable:true\r\n",
        "blanks": b"  longPollingEnable  true  \n",
        "permission": b"brokerPermission=4\n",
        "permission back": b"brokerPermission=6\n",
    }.items():
        yield Case(f"{to} set {name}", to, 25, None, body)
    yield Case(f"{to} settings", to, 26)
    yield Case(f"{to} settings, binary", to, 26, codec=ROCKETMQ)


def _access(to: str) -> Iterator[Case]:
    account = {"accessKey": "diffdiff", "secretKey": "12345678", "admin": "false", "topicPerms": "T=PUB"}
    yield from mutated(Case(f"{to} account", to, 50, account), {"accessKey": TEXT, "secretKey": TEXT, "admin": BOOL})
    yield from mutated(Case(f"{to} delete account", to, 51, {"accessKey": "diffdiff"}), {"accessKey": TEXT})
    yield from mutated(Case(f"{to} white", to, 53, {"globalWhiteAddrs": "10.0.0.1"}), {"globalWhiteAddrs": TEXT})


def _housekeeping(to: str) -> Iterator[Case]:
    for code in (306, 316, 329):
        yield Case(f"{to} cleaning {code}", to, code)
        yield Case(f"{to} cleaning {code} with odd fields", to, code, {"x": "y"}, b"junk")


def _unserved(to: str) -> Iterator[Case]:
    for code in _UNSERVED:
        if code in _SERVED:
            continue
        yield Case(f"{to} code {code}", to, code)
        yield Case(f"{to} code {code}, binary", to, code, {"x": "y"}, b"x", codec=ROCKETMQ)
    yield attrs.evolve(Case(f"{to} unknown code oneway", to, 9998), members={"flag": 2})
