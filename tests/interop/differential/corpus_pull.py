"""Pulls, offsets, queries, locks and heartbeats, at a master and at its slave."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tests.interop.differential.case import Case, Corpus, Site, stored_at
from tests.interop.differential.mutations import BOOL, GROUP, INT, LONG, TEXT, TOPIC, mutated
from tests.interop.differential.wire import ROCKETMQ

_PULL: Mapping[str, object] = {
    "consumerGroup": "DiffGroup",
    "topic": "DiffOne",
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "2",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subscription": "*",
    "subVersion": "0",
    "expressionType": "TAG",
}


def pull(name: str, to: str, code: int = 11, **changes: object) -> Case:
    fields = {key: value for key, value in {**_PULL, **changes}.items() if value is not None}
    return Case(f"{to} pull {code} {name}", to, code, fields)


def cases(to: str) -> Corpus:
    return [*_heartbeats(to), *_pulls(to), *_offsets(to), *_queries(to), *_locks(to)]


def _heartbeats(to: str) -> Iterator[Case]:
    def consumer(group: str, **more: object) -> dict[str, object]:
        plain = {
            "groupName": group,
            "consumeType": "CONSUME_PASSIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
            "subscriptionDataSet": [subscription("DiffOne")],
            "unitMode": False,
        }
        return {**plain, **more}

    def subscription(topic: str, **more: object) -> dict[str, object]:
        plain = {
            "topic": topic,
            "subString": "*",
            "tagsSet": [],
            "codeSet": [],
            "subVersion": 100,
            "classFilterMode": False,
            "expressionType": "TAG",
        }
        return {**plain, **more}

    def beat(name: str, body: object, **more: object) -> Case:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return attrs.evolve(Case(f"{to} heartbeat {name}", to, 34, None, raw), **more)  # type: ignore[arg-type]

    def data(*consumers: dict[str, object], producers: tuple[str, ...] = ()) -> dict[str, object]:
        groups = [{"groupName": name} for name in producers]
        return {"clientID": "diff@1", "consumerDataSet": list(consumers), "producerDataSet": groups}

    for name, body in {
        "no body": b"",
        "null": b"null",
        "empty": b"{}",
        "a list": b"[]",
        "junk": b"junk",
        "half": b'{"clientID":"x"',
        "no client": b'{"consumerDataSet":[],"producerDataSet":[]}',
        "null sets": b'{"clientID":"diff@1","consumerDataSet":null,"producerDataSet":null}',
        "a number for a client": b'{"clientID":5,"consumerDataSet":[],"producerDataSet":[]}',
        "a producer": data(producers=("DiffProducers",)),
        "a nameless producer": {"clientID": "diff@1", "producerDataSet": [{}]},
        "an empty producer": data(producers=("",)),
        "a consumer": data(consumer("DiffBeat")),
        "a consumer again": data(consumer("DiffBeat")),
        "a nameless consumer": data({"consumeType": "CONSUME_PASSIVELY"}),
        "an empty consumer": data(consumer("")),
        "ordinals": data(consumer("DiffOrdinal", consumeType=1, messageModel=1, consumeFromWhere=0)),
        "unknown enums": data(consumer("DiffEnum", consumeType="X", messageModel="Y", consumeFromWhere="Z")),
        "no sets": data({"groupName": "DiffBare", "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING"}),
        "string version": data(consumer("DiffText", subscriptionDataSet=[subscription("DiffOne", subVersion="7")])),
        "string codes": data(
            consumer(
                "DiffCodes", subscriptionDataSet=[subscription("DiffOne", subString="a", tagsSet=["a"], codeSet=["97"])]
            )
        ),
        "a broadcast": data(consumer("DiffNoBroadcast", messageModel="BROADCASTING")),
        "a tag": data(
            consumer(
                "DiffTag", subscriptionDataSet=[subscription("DiffOne", subString="a", tagsSet=["a"], codeSet=[97])]
            )
        ),
        "no expression type": data(
            consumer("DiffNoType", subscriptionDataSet=[{"topic": "DiffOne", "subString": "*", "subVersion": 1}])
        ),
        "SQL92": data(
            consumer(
                "DiffSql", subscriptionDataSet=[subscription("DiffOne", subString="a > 5", expressionType="SQL92")]
            )
        ),
        "bad SQL92": data(
            consumer("DiffSql2", subscriptionDataSet=[subscription("DiffOne", subString="a >", expressionType="SQL92")])
        ),
        "unknown type": data(
            consumer("DiffType", subscriptionDataSet=[subscription("DiffOne", subString="a", expressionType="XX")])
        ),
        "class filter": data(
            consumer("DiffClass", subscriptionDataSet=[subscription("DiffOne", classFilterMode=True)])
        ),
        "unit mode": data(consumer("DiffUnitMode", unitMode=True)),
        "two topics": data(
            consumer("DiffTwo", subscriptionDataSet=[subscription("DiffOne"), subscription("DiffQueues")])
        ),
        "one of two topics": data(consumer("DiffTwo")),
        "a long group": data(consumer("g" * 300)),
        "an odd group": data(consumer("a b")),
        "unknown members": {**data(consumer("DiffBeat")), "more": 1, "heartbeatFingerprint": 5},
    }.items():
        yield beat(name, body)
    yield beat("oneway", data(consumer("DiffOneway")), members={"flag": 2})
    yield beat("binary", data(consumer("DiffBinary")), codec=ROCKETMQ)
    yield beat("with a line feed", json.dumps(data(consumer("DiffFeed"))).encode() + b"\n")
    for group in (
        "DiffBeat",
        "DiffOneway",
        "DiffNobody",
        "DiffOrdinal",
        "DiffEnum",
        "DiffBare",
        "DiffTag",
        "DiffTwo",
        "",
    ):
        yield Case(f"{to} consumers of {group!r}", to, 203, {"consumerGroup": group})
    yield from mutated(Case(f"{to} connections", to, 203, {"consumerGroup": "DiffBeat"}), {"consumerGroup": GROUP})
    yield from mutated(Case(f"{to} producers", to, 204, {"producerGroup": "DiffProducers"}), {"producerGroup": GROUP})
    yield from mutated(Case(f"{to} members", to, 38, {"consumerGroup": "DiffBeat"}), {"consumerGroup": GROUP})
    yield Case(f"{to} all producers", to, 328)
    for name, body in {
        "no body": b"",
        "null": b"null",
        "empty": b"{}",
        "junk": b"junk",
        "no subscription": b'{"clientId":"x","group":"g"}',
        "tag": {"clientId": "x", "group": "g", "subscriptionData": subscription("DiffOne")},
        "SQL92": {
            "clientId": "x",
            "subscriptionData": subscription("DiffOne", expressionType="SQL92", subString="a>1"),
        },
        "XX": {"clientId": "x", "subscriptionData": subscription("DiffOne", expressionType="XX", subString="a")},
        "no type": {"clientId": "x", "subscriptionData": {"topic": "DiffOne", "subString": "a"}},
    }.items():
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        yield Case(f"{to} check client {name}", to, 46, None, raw)
    leave = {"clientID": "diff@1", "producerGroup": "DiffProducers", "consumerGroup": "DiffOneway"}
    yield from mutated(
        Case(f"{to} unregister", to, 35, leave), {"clientID": TEXT, "producerGroup": GROUP, "consumerGroup": GROUP}
    )
    yield Case(f"{to} producers after", to, 204, {"producerGroup": "DiffProducers"})
    yield Case(f"{to} consumers after", to, 203, {"consumerGroup": "DiffOneway"})
    yield beat("of the producer anew", data(producers=("DiffProducers",)))


def _pulls(to: str) -> Iterator[Case]:
    kinds: Mapping[str, tuple[object, ...]] = {
        "consumerGroup": (*GROUP, "DiffNoConsume"),
        "topic": TOPIC,
        "queueId": INT,
        "queueOffset": LONG,
        "maxMsgNums": INT,
        "sysFlag": INT,
        "commitOffset": LONG,
        "suspendTimeoutMillis": LONG,
        "subscription": (*TEXT, "a", "a||b", "||", " * ", "a || ", "a b"),
        "subVersion": LONG,
        "expressionType": (*TEXT, "SQL92", "tag", "TAG "),
    }
    # These have the hold bit, and are answered only when a message comes
    yield from mutated(pull("right", to), kinds, leave={"sysFlag": ()})
    yield from mutated(pull("lite", to, 361), {"queueId": INT})
    for topic in (
        "OFFSET_MOVED_EVENT",
        "DiffRead",
        "DiffWrite",
        "DiffEmpty",
        "DiffAsym",
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "%RETRY%DiffGroup",
        "%DLQ%DiffGroup",
    ):
        for offset in ("0", "5", "1000000"):
            of_topic = pull(f"of {topic} at {offset}", to, topic=topic, queueOffset=offset, maxMsgNums="32")
            yield attrs.evolve(
                of_topic, settles=topic == "OFFSET_MOVED_EVENT"
            )  # the broker stores it for earlier pulls
    for queue in (0, 1, 2):
        yield pull(f"of DiffAsym queue {queue}", to, topic="DiffAsym", queueId=str(queue), maxMsgNums="32")

    def at_end(change: int) -> object:
        def fields(site: Site) -> dict[str, object]:
            end = (site.answers[f"{to} end of DiffOne"].fields or {})["offset"]
            return {**_PULL, "queueOffset": str(int(end) + change)}

        return fields

    yield Case(f"{to} end of DiffOne", to, 30, {"topic": "DiffOne", "queueId": "0"})
    for change in (-1, 0, 1, 2, 1000):
        yield Case(f"{to} pull at the end {change:+}", to, 11, at_end(change))  # type: ignore[arg-type]
    for number in (0, 1, 31, 32, 33, 100_000, -5):
        yield pull(f"{number} messages", to, maxMsgNums=str(number), queueOffset="20")
    for start in range(0, 400, 25):
        yield pull(f"from {start} on", to, maxMsgNums="32", queueOffset=str(start))
    moved = {"topic": "OFFSET_MOVED_EVENT", "queueId": "0"}
    yield Case(f"{to} end after pulls beyond it", to, 30, moved, settles=True)
    for expression in ("a", "b", "a||b", "nosuch", " a ", "a||", "||", "", "ü", "*||a"):
        yield pull(f"of tags {expression!r}", to, maxMsgNums="32", subscription=expression)
    for group, version in (
        ("DiffBeat", 100),
        ("DiffBeat", 101),
        ("DiffBeat", 99),
        ("DiffTag", 100),
        ("DiffNobody", 0),
        ("DiffNoBroadcast", 100),
        ("DiffSql", 100),
        ("DiffType", 100),
        ("DiffClass", 100),
        ("DiffCodes", 100),
        ("DiffText", 7),
        ("DiffNoType", 1),
        ("DiffTwo", 100),
        ("DiffBare", 0),
    ):
        for topic in ("DiffOne", "DiffQueues"):
            fields: dict[str, Any] = {
                "consumerGroup": group,
                "subVersion": str(version),
                "sysFlag": "0",
                "topic": topic,
            }
            yield pull(
                f"by heartbeat of {group} {version} in {topic}", to, **fields, subscription=None, maxMsgNums="32"
            )
    for flag in (1, 5, 8, 12, 16, 20, 32, -4):
        yield pull(f"sysFlag {flag}", to, consumerGroup="DiffCommit", sysFlag=str(flag), commitOffset="3")
        yield Case(
            f"{to} offset after sysFlag {flag}",
            to,
            14,
            {"consumerGroup": "DiffCommit", "topic": "DiffOne", "queueId": "0"},
        )
    yield pull("commit -1", to, consumerGroup="DiffCommit", sysFlag="5", commitOffset="-1")
    yield Case(
        f"{to} offset after commit -1", to, 14, {"consumerGroup": "DiffCommit", "topic": "DiffOne", "queueId": "0"}
    )
    yield pull(
        "commit when nothing is found", to, consumerGroup="DiffCommit", sysFlag="5", commitOffset="4", topic="DiffEmpty"
    )
    yield Case(f"{to} offset after that", to, 14, {"consumerGroup": "DiffCommit", "topic": "DiffEmpty", "queueId": "0"})
    yield pull("slow group", to, consumerGroup="DiffSlow")
    yield pull("SQL92", to, expressionType="SQL92", subscription="a > 5")
    yield attrs.evolve(pull("oneway", to), members={"flag": 2})
    if to == "master":
        yield attrs.evolve(pull("at the VIP port", to), to="vip")


def _offsets(to: str) -> Iterator[Case]:
    key = {"consumerGroup": "DiffOffsets", "topic": "DiffOne", "queueId": "0"}
    kinds: Mapping[str, tuple[object, ...]] = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": INT}
    yield Case(f"{to} offset before", to, 14, key)
    # A commit of a group without a name breaks request 308 there for good: see docs/departures.md
    commit = Case(f"{to} commit", to, 15, {**key, "commitOffset": "5"})
    yield from mutated(commit, {**kinds, "commitOffset": LONG}, leave={"consumerGroup": ("",)})
    yield from mutated(Case(f"{to} offset", to, 14, key), kinds)
    yield Case(f"{to} commit oneway", to, 15, {**key, "commitOffset": "9"}, members={"flag": 2})
    yield Case(f"{to} offset after oneway", to, 14, key)
    for topic in ("DiffEmpty", "DiffUnknown", "DiffQueues", "DiffOne"):
        yield Case(f"{to} offset in {topic} of none", to, 14, {**key, "consumerGroup": "DiffNever", "topic": topic})
    place = {"topic": "DiffOne", "queueId": "0"}
    place_kinds = {"topic": TOPIC, "queueId": INT}
    yield from mutated(Case(f"{to} search", to, 29, {**place, "timestamp": "0"}), {**place_kinds, "timestamp": LONG})
    for code in (30, 31, 32):
        yield from mutated(Case(f"{to} bound {code}", to, code, place), place_kinds)
        yield Case(f"{to} bound {code} of DiffEmpty", to, code, {"topic": "DiffEmpty", "queueId": "0"})
    for when in ("1", "1700000000000", "4000000000000"):
        for topic in ("DiffOne", "DiffEmpty", "DiffUnknown"):
            yield Case(f"{to} search {topic} at {when}", to, 29, {"topic": topic, "queueId": "0", "timestamp": when})
    yield Case(f"{to} all offsets", to, 43)


def _queries(to: str) -> Iterator[Case]:
    plain = {"topic": "DiffOne", "key": "k1", "maxNum": "32", "beginTimestamp": "0", "endTimestamp": str(2**62)}
    kinds: Mapping[str, tuple[object, ...]] = {
        "topic": TOPIC,
        "key": (*TEXT, "k2", "k1 k2", "7F0000010001", "b1", "u2", "half", "many7", "a"),
        "maxNum": INT,
        "beginTimestamp": LONG,
        "endTimestamp": LONG,
    }
    yield from mutated(Case(f"{to} query", to, 12, plain), {**kinds, "_UNIQUE_KEY_QUERY": BOOL})
    view = Case(f"{to} view", to, 33, lambda site: {"offset": str(stored_at(site, "send 310 half"))})
    yield view
    yield attrs.evolve(view, name=f"{to} view, binary", codec=ROCKETMQ)
    for value in ("0", "-1", "1", "99999999", "", "abc", "9223372036854775807", "9223372036854775808"):
        yield Case(f"{to} view {value!r}", to, 33, {"offset": value})
    yield Case(f"{to} view in a record", to, 33, lambda site: {"offset": str(stored_at(site, "send 310 half") + 1)})
    yield Case(f"{to} view without offset", to, 33, {})
    yield Case(f"{to} view without fields", to, 33)
    entries = {"topic": "DiffOne", "queueId": "0", "index": "0", "count": "3", "consumerGroup": "DiffBeat"}
    more: Mapping[str, tuple[object, ...]] = {
        "topic": TOPIC,
        "queueId": INT,
        "index": LONG,
        "count": INT,
        "consumerGroup": GROUP,
    }
    yield from mutated(Case(f"{to} entries", to, 321, entries), more)
    for group in ("DiffSql", "DiffTag", "DiffNever"):
        yield Case(f"{to} entries for {group}", to, 321, {**entries, "consumerGroup": group})
    yield Case(f"{to} entries of DiffEmpty", to, 321, {**entries, "topic": "DiffEmpty"})


def _locks(to: str) -> Iterator[Case]:
    def queue(number: int, **more: object) -> dict[str, object]:
        return {"topic": "DiffOne", "brokerName": "broker-a", "queueId": number, **more}

    def body(client: str, *queues: dict[str, object], group: str = "DiffGroup") -> bytes:
        return json.dumps({"consumerGroup": group, "clientId": client, "mqSet": list(queues)}).encode()

    for name, code, raw in (
        ("lock", 41, body("c1", queue(0), queue(1))),
        ("lock again", 41, body("c1", queue(0))),
        ("lock of another", 41, body("c2", queue(0), queue(2))),
        ("lock in another group", 41, body("c2", queue(0), group="DiffOther")),
        ("lock of an unknown queue", 41, body("c1", queue(99), queue(-1))),
        ("lock of an unknown topic", 41, body("c1", queue(0, topic="NoSuchTopic"))),
        ("lock of another broker", 41, body("c1", queue(0, brokerName="broker-z"))),
        ("lock of nothing", 41, body("c1")),
        ("lock without a client", 41, json.dumps({"consumerGroup": "DiffGroup", "mqSet": [queue(5)]}).encode()),
        ("lock without a group", 41, json.dumps({"clientId": "c1", "mqSet": [queue(5)]}).encode()),
        ("lock without queues", 41, b'{"consumerGroup":"DiffGroup","clientId":"c1"}'),
        ("lock of null queues", 41, b'{"consumerGroup":"DiffGroup","clientId":"c1","mqSet":null}'),
        ("lock of an odd queue", 41, b'{"consumerGroup":"DiffGroup","clientId":"c1","mqSet":[{}]}'),
        (
            "lock with text for a number",
            41,
            b'{"consumerGroup":"DiffGroup","clientId":"c1","mqSet":[{"topic":"DiffOne","brokerName":"broker-a","queueId":"3"}]}',
        ),
        ("lock twice in one", 41, body("c3", queue(7), queue(7))),
        ("lock without a body", 41, b""),
        ("lock of null", 41, b"null"),
        ("lock of junk", 41, b"junk"),
        ("unlock of another", 42, body("c2", queue(0))),
        ("lock still", 41, body("c2", queue(0))),
        ("unlock", 42, body("c1", queue(0))),
        ("lock free", 41, body("c2", queue(0))),
        ("unlock of nothing", 42, body("c1")),
        ("unlock in an unknown group", 42, body("c1", queue(0), group="DiffNobody")),
        ("unlock without a body", 42, b""),
        ("unlock without queues", 42, b'{"consumerGroup":"DiffGroup","clientId":"c1"}'),
        ("unlock without a client", 42, json.dumps({"consumerGroup": "DiffGroup", "mqSet": [queue(0)]}).encode()),
        ("unlock of junk", 42, b"junk"),
    ):
        yield Case(f"{to} {name}", to, code, None, raw)
    yield Case(f"{to} lock, binary", to, 41, None, body("c9", queue(9)), codec=ROCKETMQ)
