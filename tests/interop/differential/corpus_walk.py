"""Random sequences of valid and odd requests.

Later ones depend on what earlier ones changed. Topics and groups are made, changed and deleted while several clients
join, leave, send, pull and commit. Odd seeds have half messages and delete no topic, with which 4.9 forgets their queue
(docs/departures.md). Queue -1 is left out, for which a broker chooses at random. One seed is one sequence.
"""

import json
import random
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from tests.interop.differential.case import MASTER_DIES, Case, Corpus, Site, queue_offset_of, stored_at
from tests.interop.differential.wire import JSON, ROCKETMQ, Fields

_LANGUAGES = ("JAVA", "GO", "CPP")
"""Of the clients, by their number."""
_VERSIONS = (409, 100)
"""Of each heartbeat: a member keeps that of its first."""
_COLLECT_EACH = 20
"""Requests, after which each client's own requests from the broker are compared."""
_EXPRESSIONS = {
    "TAG": ("*", "a", "a || b", "", "c||"),
    "SQL92": ("TAGS = 'a'", "x > 1", "x IS NULL", "x BETWEEN 1 AND 5 OR TAGS IN ('b', 'c')"),
}
SETTINGS = {"enablePropertyFilter": "true"}
"""Of the brokers."""
_SEND_LETTERS = "abcdefghijklm"
_SEND_FIELDS = (
    *("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp"),
    *("flag", "properties", "reconsumeTimes", "unitMode", "maxReconsumeTimes", "batch"),
)


def cases(seed: int = 1, steps: int = 600, steps_at_slave: int = 200) -> Corpus:
    """Return a walk at the master, and its end at the slave of the dead master.

    The end is only there if no topics are deleted: a slave keeps the queues of deleted topics, and departs in what it
    enters there later (docs/departures.md).
    """
    walk = _Walk(seed)
    at_master = list(walk.cases(steps))
    return [*at_master, MASTER_DIES, *walk.cases_at_slave(steps_at_slave)] if walk.has_halves else at_master


class _Walk:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.has_halves = seed % 2 == 1
        self._to = "master"
        self._prefix = f"Walk{seed}"
        self._topics = [f"{self._prefix}{letter}" for letter in "abc"]
        self._groups = [f"{self._prefix}g{letter}" for letter in "xyz"]
        self._sends: list[str] = []
        self._halves: list[str] = []
        self._count = 0

    def cases(self, steps: int) -> Iterator[Case]:
        actions = [self._send] * 4 + [self._pull] * 3 + [self._heartbeat] * 2 + [self._unregister] + [self._other] * 6
        actions += [self._end_transaction] if self.has_halves else []
        for _ in range(steps):
            self._count += 1
            action = self._pick(actions)
            yield attrs.evolve(action(), settles=action != self._send)  # pulls and others store messages, too
            if self._count % _COLLECT_EACH == 0:
                for client in range(len(_LANGUAGES)):
                    name = f"walk {self._count}, requests to client {client}"
                    yield Case(name, f"{self._to} client {client}", collects=True)

    def cases_at_slave(self, steps: int) -> Iterator[Case]:
        self._to = "slave"
        for _ in range(steps):
            self._count += 1
            yield self._pick([self._send, *[self._pull] * 5, self._heartbeat, *[self._other] * 4])()

    # ---- values ----

    def _pick(self, values: Sequence[Any]) -> Any:
        return self._random.choice(values)

    def _topic(self) -> str:
        odd = ("TBW102", "SCHEDULE_TOPIC_XXXX", "OFFSET_MOVED_EVENT", f"{self._prefix}none", "a b", "")
        retries = [f"%RETRY%{group}" for group in self._groups]
        return str(self._pick(self._topics if self._random.random() < 0.8 else [*retries, *odd]))

    def _group(self) -> str:
        return str(self._pick(self._groups if self._random.random() < 0.85 else ["", "WalkNobody", "a b"]))

    def _offset(self) -> str:
        return str(self._pick([0, 0, 1, 2, 3, 5, 10, -1, 100, 2**31, 2**62]))

    def _queue(self) -> str:
        return str(self._pick([0, 0, 0, 1, 2, 7]))

    def _properties(self) -> str:
        values = {
            "TAGS": ("a", "b", "c", "a b", "ü", ""),
            "KEYS": ("k1", "k1 k2", f"u{self._count}", " k3 "),
            "UNIQ_KEY": (f"{self._prefix}{self._count}", "SAME"),
            "WAIT": ("true", "false"),
            "DELAY": ("0", "1", "18", "30", "-1"),
            "x": ("1", "5", "abc"),
            "RETRY_TOPIC": tuple(self._topics),
            "RECONSUME_TIME": ("2",),
            "CLUSTER": ("x",),
            "REAL_TOPIC": tuple(self._topics),
            "INNER_NUM": ("3",),
            "__SHARDINGKEY": ("s",),
        }
        usual = ("TAGS", "KEYS", "UNIQ_KEY")
        chosen = {
            name: self._pick(some)
            for name, some in values.items()
            if self._random.random() < (0.5 if name in usual else 0.08)
        }
        return "".join(f"{name}\x01{value}\x02" for name, value in chosen.items())

    # ---- requests ----

    def _case(self, code: int, fields: "Fields | Callable[[Site], Fields]", body: bytes = b"", **more: Any) -> Case:
        # In binary headers empty values are null, at which each handler of 4.9 fails somewhere else.
        is_complete = isinstance(fields, Mapping) and "" not in fields.values()
        codec = ROCKETMQ if self._random.random() < 0.2 and is_complete else JSON
        name = f"walk {self._count} request {code}"
        return attrs.evolve(Case(name, self._to, code, fields, body, codec=codec), **more)

    def _send(self) -> Case:
        values: dict[str, object] = {
            "producerGroup": "WalkProducers",
            "topic": self._topic(),
            "defaultTopic": self._pick(["TBW102", "TBW102", "WalkNone"]),
            "defaultTopicQueueNums": self._pick(["1", "4"]),
            "queueId": self._queue(),
            "sysFlag": self._pick(["0", "0", "0", "0", "1", "2", "3", "4", "8", "12"]),
            "bornTimestamp": "1700000000000",
            "flag": self._pick(["0", "7"]),
            "properties": self._properties(),
            "reconsumeTimes": self._pick(["0", "0", "0", "1", "5", "16", "17"]),
            "unitMode": self._pick(["false", "false", "true"]),
            "maxReconsumeTimes": self._pick(["16", "3"]),
            "batch": "false",
        }
        code, body = self._pick([10, 310, 310]), b"message %d" % self._count
        is_half = self.has_halves and self._random.random() < 0.2
        if is_half:
            values["sysFlag"] = "4"
            values["properties"] = f"TRAN_MSG\x01true\x02PGROUP\x01WalkProducers\x02{values['properties']}"
        elif self._random.random() < 0.15:
            code, body = 320, b"".join(self._item(number) for number in range(self._random.randrange(1, 4)))
            values |= {"batch": "true", "properties": self._pick(["", "WAIT\x01true\x02"])}
        if code != 10:
            letters = dict(zip(_SEND_FIELDS, _SEND_LETTERS, strict=True))
            values = {letters[name]: value for name, value in values.items()}
        case = self._case(code, values, body)
        (self._halves if is_half else self._sends).append(case.name)
        return case

    def _end_transaction(self) -> Case:
        fields = {
            "producerGroup": self._pick(["WalkProducers", "WalkProducers", "WalkOthers"]),
            "commitOrRollback": self._pick(["8", "8", "12"]),
            "fromTransactionCheck": self._pick(["true", "false"]),
            "msgId": "7F0000010003",
            "transactionId": "7F0000010003",
        }
        half = _AtHalf(self._pick(self._halves or ["none"]), fields)
        return self._case(37, half, codec=JSON)  # 4.9 fails at a message without a group, and replies in JSON then

    def _item(self, number: int) -> bytes:
        body, properties = b"item %d" % number, self._properties().encode()
        size = 22 + len(body) + len(properties)
        head = struct.pack(">iiiii", size, 0, 0, self._pick([0, 7]), len(body))
        return head + body + struct.pack(">h", len(properties)) + properties

    def _pull(self) -> Case:
        language = self._pick(["TAG", "TAG", "SQL92"])
        return self._case(
            11,
            {
                "consumerGroup": self._group(),
                "topic": self._topic(),
                "queueId": self._queue(),
                "queueOffset": self._offset(),
                "maxMsgNums": self._pick(["0", "1", "2", "32"]),
                "sysFlag": self._pick(["0", "1", "4", "4", "4", "5", "12"]),
                "commitOffset": self._offset(),
                "suspendTimeoutMillis": "0",
                "subscription": self._pick(_EXPRESSIONS[language]),
                "subVersion": self._pick(["0", "100", "101"]),
                "expressionType": language,
            },
        )

    def _of_client(self, number: int, case: Case) -> Case:
        members = {"language": _LANGUAGES[number], "version": self._pick(_VERSIONS)}
        return attrs.evolve(case, to=f"{self._to} client {number}", members=members, codec=JSON)

    def _heartbeat(self) -> Case:
        number = self._random.randrange(len(_LANGUAGES))
        groups = self._random.sample(self._groups, self._random.randrange(3))
        producers = self._random.sample(["WalkProducers", "WalkOthers"], self._random.randrange(2))
        body = {
            "clientID": f"walk@{number}",
            "consumerDataSet": [self._consumer(group) for group in groups],
            "producerDataSet": [{"groupName": name} for name in producers],
        }
        return self._of_client(number, self._case(34, None, json.dumps(body).encode()))

    def _consumer(self, group: str) -> dict[str, object]:
        topics = self._random.sample([*self._topics, f"%RETRY%{group}"], self._random.randrange(4))
        return {
            "groupName": group,
            "consumeType": self._pick(["CONSUME_PASSIVELY", "CONSUME_ACTIVELY"]),
            "messageModel": self._pick(["CLUSTERING", "CLUSTERING", "BROADCASTING"]),
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "unitMode": self._pick([False, False, True]),
            "subscriptionDataSet": [self._subscription(topic) for topic in topics],
        }

    def _subscription(self, topic: str) -> dict[str, object]:
        made = {
            "topic": topic,
            "tagsSet": [],
            "codeSet": [],
            "subVersion": self._pick([99, 100, 101]),
            "classFilterMode": False,
        }
        if self._random.random() < 0.3:
            return {**made, "subString": self._pick((*_EXPRESSIONS["SQL92"], "x >", "")), "expressionType": "SQL92"}
        tag = self._pick(["*", "a", "b"])
        tags = {} if tag == "*" else {"tagsSet": [tag], "codeSet": [ord(tag)]}
        return {**made, "subString": tag, "expressionType": "TAG", **tags}

    def _unregister(self) -> Case:
        number = self._random.randrange(len(_LANGUAGES))
        group = {"consumerGroup": self._group()} if self._random.random() < 0.7 else {"producerGroup": "WalkProducers"}
        return self._of_client(number, self._case(35, {"clientID": f"walk@{number}", **group}))

    def _other(self) -> Case:
        """A request that a client or a tool sends once in a while."""
        codes = (
            12,
            12,
            14,
            14,
            15,
            15,
            17,
            17,
            21,
            29,
            30,
            31,
            33,
            36,
            36,
            38,
            41,
            42,
            43,
            45,
            200,
            200,
            201,
            202,
            202,
            203,
        )
        code = int(self._pick((*codes, 204, 207, 208, 208, 215, 222, 300, 303, 306, 314, 317, 329)))
        if code == 215 and self.has_halves:
            code = 21
        match code:
            case 17:
                return self._case(code, self._new_topic())
            case 200:
                return self._case(code, None, json.dumps(self._new_group()).encode())
            case 33 | 36:
                return self._case(code, _AtSend(self._pick(self._sends or ["none"]), self._handed_back()))
            case 41 | 42:
                return self._case(code, None, json.dumps(self._locks()).encode())
            case 314:  # without a topic it departs
                return self._case(code, {**self._names(), "topic": self._pick(self._topics)})
            case 203 | 204:
                return self._case(code, self._names(), show=_without_addresses)
        return self._case(code, self._names())

    def _names(self) -> dict[str, object]:
        """Fields of many requests at once: a broker ignores those that its header lacks."""
        group = {name: self._group() for name in ("consumerGroup", "group", "groupName", "srcGroup", "destGroup")}
        return {
            **group,
            "topic": self._topic(),
            "queueId": self._queue(),
            "producerGroup": "WalkProducers",
            "commitOffset": self._offset(),
            "timestamp": self._pick(["0", "-1", "1000000000000", "4000000000000"]),
            "isForce": self._pick(["true", "false"]),
            "isOrder": "false",
            "offline": self._pick(["true", "false"]),
            "key": self._pick(["k1", "k2", "SAME", f"{self._prefix}{self._random.randrange(1, 600)}", ""]),
            "maxNum": self._pick(["0", "1", "32", "64"]),
            "beginTimestamp": self._pick(["0", "4000000000000"]),
            "endTimestamp": self._pick([str(2**63 - 1), "1000000000000"]),
            "removeOffset": "false",  # a slave keeps offsets that its master removes, and is compared later
        }

    def _new_topic(self) -> dict[str, object]:
        queues = self._pick([1, 2, 4])
        return {
            "topic": self._topic(),
            "defaultTopic": "TBW102",
            "readQueueNums": queues,
            "writeQueueNums": queues,
            "perm": self._pick([6, 6, 6, 4, 2]),
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": self._pick([0, 1, 2]),
            "order": self._pick([False, True]),
        }

    def _new_group(self) -> dict[str, object]:
        return {
            "groupName": self._group(),
            "consumeEnable": self._random.random() < 0.8,
            "consumeBroadcastEnable": self._random.random() < 0.8,
            "notifyConsumerIdsChangedEnable": self._random.random() < 0.8,
            "retryQueueNums": self._pick([0, 1, 1]),
            "retryMaxTimes": self._pick([16, 1]),
            "brokerId": self._pick([0, 1]),
            "whichBrokerWhenConsumeSlowly": 1,
        }

    def _locks(self) -> dict[str, object]:
        queues = [
            {"topic": self._topic(), "brokerName": "broker-a", "queueId": self._random.randrange(3)} for _ in range(2)
        ]
        return {"consumerGroup": self._group(), "clientId": self._pick(["walk@0", "walk@1"]), "mqSet": queues}

    def _handed_back(self) -> dict[str, object]:
        return {
            "group": self._group(),
            "delayLevel": self._pick(["0", "0", "1", "3", "-1", "20"]),
            "originMsgId": "7F0000010009",
            "originTopic": self._topic(),
            "unitMode": self._pick(["true", "false"]),
            "maxReconsumeTimes": self._pick(["16", "0", "2"]),
        }


@attrs.frozen
class _AtSend:
    """Fields with the commit log offset of a message; 0 if its send failed."""

    send: str
    fields: Mapping[str, object]

    def __call__(self, site: Site) -> Fields:
        answer = site.answers.get(self.send)
        is_stored = answer is not None and "msgId" in (answer.fields or {})
        return {**self.fields, "offset": stored_at(site, self.send) if is_stored else 0}


@attrs.frozen
class _AtHalf(_AtSend):
    """Fields with the offsets of a half message in the commit log and in its queue.

    They are 0 if its send failed.
    """

    def __call__(self, site: Site) -> Fields:
        place = super().__call__(site) or {}
        is_stored = bool(place["offset"])
        index = queue_offset_of(site, self.send) if is_stored else 0
        return {**self.fields, "commitLogOffset": place["offset"], "tranStateTableOffset": index}


def _without_addresses(body: Any) -> Any:
    connections = body.get("connectionSet", [])
    return {**body, "connectionSet": [{**one, "clientAddr": "ANY"} for one in connections]}
