"""Sends of all kinds, messages handed back, and transactions.

What the queues hold after them.
"""

import struct
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from tests.interop.differential.case import Case, Corpus, Site, queue_offset_of, stored_at
from tests.interop.differential.mutations import BOOL, GROUP, INT, LONG, TEXT, TOPIC, mutated
from tests.interop.differential.wire import ROCKETMQ, Fields

_TO = "master"
_LETTERS = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
}
_PLAIN: Mapping[str, object] = {
    "producerGroup": "DiffProducers",
    "topic": "DiffOne",
    "defaultTopic": "TBW102",
    "defaultTopicQueueNums": "1",
    "queueId": "0",
    "sysFlag": "0",
    "bornTimestamp": "1700000000000",
    "flag": "7",
    "properties": "",
    "reconsumeTimes": "0",
    "unitMode": "false",
    "maxReconsumeTimes": "16",
    "batch": "false",
}
_KINDS: Mapping[str, tuple[object, ...]] = {
    "producerGroup": GROUP,
    "topic": TOPIC,
    "defaultTopic": TOPIC,
    "defaultTopicQueueNums": INT,
    "queueId": INT,
    "sysFlag": INT,
    "bornTimestamp": LONG,
    "flag": INT,
    "properties": TEXT,
    "reconsumeTimes": INT,
    "unitMode": BOOL,
    "maxReconsumeTimes": INT,
    "batch": BOOL,
}
_SYS_FLAGS_THAT_CHANGE_LENGTHS = ("2147483647", "-1", True)


def props(**pairs: str) -> str:
    return "".join(f"{key}\x01{value}\x02" for key, value in pairs.items())


def fields_of(code: int, **changes: object) -> dict[str, object]:
    fields = {**_PLAIN, **changes}
    if code in (310, 320, 325):
        return {_LETTERS[key]: value for key, value in fields.items()}
    return fields


def send(name: str, body: bytes = b"hello", code: int = 310, **changes: Any) -> Case:
    return Case(f"send {code} {name}", _TO, code, fields_of(code, **changes), body)


def cases() -> Corpus:
    return [
        *_headers(),
        *_topics(),
        *_properties(),
        *_sizes(),
        *_batches(),
        *_retries(),
        *_replies(),
        *_sent_back(),
        *_transactions(),
    ]


def at_slave() -> Corpus:
    """Return the same at a slave, after the master: it rejects most, in various ways."""
    return [attrs.evolve(case, name=f"slave: {case.name}", to="slave") for case in cases() if case.to == _TO]


def _headers() -> Iterator[Case]:
    for code in (10, 310, 320):
        kinds = {(_LETTERS[key] if code != 10 else key): values for key, values in _KINDS.items()}
        flag_field = "sysFlag" if code == 10 else "f"
        yield from mutated(send("right", code=code), kinds, leave={flag_field: _SYS_FLAGS_THAT_CHANGE_LENGTHS})
        yield attrs.evolve(send("oneway", code=code), members={"flag": 2})
        yield attrs.evolve(send("oneway and wrong", code=code, topic="a b"), members={"flag": 2})
    yield attrs.evolve(send("at the VIP port"), to="vip")
    for language, version in (("CPP", 63), ("GO", 317), ("JAVA", 121), ("JAVA", 120), ("JAVA", 0), ("XX", 9999)):
        yield attrs.evolve(send(f"by {language} {version}"), members={"language": language, "version": version})
    for flag in (1, 2, 3, 4, 8, 12, 7, 64, 0x100, 0x200, 0x300, 0x700, 0x800, 2**30):
        yield send(f"sysFlag {flag}", sysFlag=str(flag))


def _topics() -> Iterator[Case]:
    for topic in (
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
        "RMQ_SYS_TRACE_TOPIC",
        "BenchmarkTest",
        "DefaultCluster",
        "broker-a",
        "DefaultCluster_REPLY_TOPIC",
        "rmq_sys_diff",
        "%DLQ%DiffGroup",
        "DiffRead",
        "DiffWrite",
        "DiffAsym",
        "a|b",
        "a/b",
        "a*b",
        "a$b",
        "a\nb",
        "ab\n",
        "..",
    ):
        yield send(f"to {topic!r}", topic=topic)
    for queue in (0, 1, 2, 3):
        yield send(f"to DiffAsym queue {queue}", topic="DiffAsym", queueId=str(queue))
    for default in ("TBW102", "DefaultCluster", "broker-a", "DiffOne", "NoSuchTopic", "BenchmarkTest"):
        for count in (-1, 0, 1, 3, 1000):
            name = f"DiffAuto-{default}-{count}"
            yield send(f"makes {name}", topic=name, defaultTopic=default, defaultTopicQueueNums=str(count))
    yield send("unit mode makes", topic="DiffUnit", unitMode="true")
    yield send("unit mode of a retry topic makes", topic="%RETRY%DiffUnitGroup", unitMode="true")
    yield send("unknown, queue out of range", topic="DiffOutOfRange", queueId="5")
    yield Case("topics after sends", _TO, 21)
    yield Case("groups after sends", _TO, 201)


def _properties() -> Iterator[Case]:
    for level in ("1", "18", "19", "99", "0", "-1", "", " 3", "abc", "1.0", "+2", "2147483648"):
        yield send(f"DELAY {level!r}", properties=props(DELAY=level))
        yield send(f"DELAY {level!r} in half", properties=props(DELAY=level, TRAN_MSG="true"))
    for wait in ("true", "false", "TRUE", "1", ""):
        yield send(f"WAIT {wait!r}", properties=props(WAIT=wait))
        yield send(f"WAIT {wait!r} delayed", properties=props(WAIT=wait, DELAY="2"))
    for name, text in {
        "usual": props(TAGS="a", KEYS="k1 k2", UNIQ_KEY="7F0000010001", WAIT="true"),
        "unended": props(TAGS="a")[:-1],
        "no value": "TAGS\x01\x02KEYS\x01k\x02",
        "no name": "\x01v\x02TAGS\x01b\x02",
        "no mark": "TAGS\x02KEYS\x01k",
        "short": "a\x01\x02b\x01c\x02",
        "two marks": "TAGS\x01a\x01b\x02",
        "twice": "TAGS\x01a\x02TAGS\x01b\x02",
        "empty pairs": "\x02\x02TAGS\x01a\x02\x02",
        "unicode": props(TAGS="ü", KEYS="schlüssel", mine="\U0001f600"),
        "reserved": props(CLUSTER="x", REAL_TOPIC="y", REAL_QID="3", PGROUP="z"),
        "reconsume": props(RECONSUME_TIME="5", MAX_RECONSUME_TIMES="3", RETRY_TOPIC="r", ORIGIN_MESSAGE_ID="o"),
        "inner batch": props(INNER_NUM="2", INNER_MULTI_QUEUE_OFFSET="1"),
        "many keys": props(KEYS=" ".join(f"many{number}" for number in range(40))),
        "odd blanks in keys": props(KEYS="  a   b  "),
        "tag blanks": props(TAGS=" a b "),
        "negative hash": props(TAGS="polygenelubricants"),
        "born host": props(__BORNHOST="10.0.0.1", BORN_TIMESTAMP="5"),
        "trace": props(TRACE_ON="false", MSG_REGION="x"),
        "shard": props(__SHARDINGKEY="s", CONSUME_START_TIME="1", INSTANCE_ID="i"),
        "transaction false": props(TRAN_MSG="false", PGROUP="g"),
        "transaction True": props(TRAN_MSG="True", PGROUP="g"),
        "multi dispatch": props(INNER_MULTI_DISPATCH="q1,q2"),
    }.items():
        yield send(f"properties {name}", properties=text)
    yield send("multi tags", sysFlag="2", properties=props(TAGS="a||b"))


def _sizes() -> Iterator[Case]:
    yield send("no body", b"")
    for size in (4_194_303, 4_194_304, 4_194_305, 5_000_000):
        yield send(f"body of {size}", b"x" * size)
    for size in (32_000, 32_726, 32_727, 32_728, 32_729, 32_740, 32_766, 32_767, 32_768, 40_000, 70_000):
        yield send(f"property of {size}", properties=props(x="y" * size))
        yield send(f"property of {size}, delayed", properties=props(x="y" * size, DELAY="5"))
    yield send("topic of 127 bytes", topic="t" * 127)
    yield send("body of 4 MB and property", b"x" * 4_194_304, properties=props(x="y" * 30_000))


def _item(body: bytes, properties: str = "", flag: int = 0) -> bytes:
    raw = properties.encode()
    size = 22 + len(body) + len(raw)
    return struct.pack(">iiiii", size, 0, 0, flag, len(body)) + body + struct.pack(">h", len(raw)) + raw


def _batches() -> Iterator[Case]:
    two = _item(b"one", props(TAGS="a", KEYS="b1"), 3) + _item(b"two", props(KEYS="b2", UNIQ_KEY="u2"))
    for code in (10, 310, 320):
        yield send("batch", two, code, batch="true")
        yield attrs.evolve(send("batch, binary", two, code, batch="true"), codec=ROCKETMQ)
        yield send("batch that is none", two, code, batch="false")
        yield send("none that is a batch", b"hello", code, batch="true")
    for name, body in {
        "empty": b"",
        "of one": _item(b"one"),
        "with an empty one": _item(b"") + _item(b"x"),
        "cut": two[:-3],
        "cut in the size": two + b"\0\0",
        # What an item says of its own size: see docs/departures.md. It would be stored there.
        "a body too long": two[:16] + struct.pack(">i", 1000) + two[20:],
        "a body below 0": two[:16] + struct.pack(">i", -1) + two[20:],
        "odd properties": _item(b"x", "junk") + _item(b"y", "a\x01"),
        "odd magic": struct.pack(">iiiii", 23, 5, 6, 7, 1) + b"x" + struct.pack(">h", 0),
        "unended properties": _item(b"x", "a\x01b"),
        "delayed inside": _item(b"x", props(DELAY="3")),
        "half inside": _item(b"x", props(TRAN_MSG="true")),
        "zeros behind": two + b"\0" * 8,
        "of 100": b"".join(_item(b"%d" % number) for number in range(100)),
        "of 4 MB": _item(b"x" * (4_194_304 - 22)),
        "of 4 MB and more": _item(b"x" * (4_194_304 - 21)),
        "of long properties": _item(b"x", props(x="y" * 32_700)),
    }.items():
        yield send(f"batch {name}", body, 320, batch="true")
    for flag in (1, 4, 8, 12):
        yield send(f"batch sysFlag {flag}", two, 320, batch="true", sysFlag=str(flag))
    for name, text in {
        "WAIT": props(WAIT="true"),
        "no WAIT": props(WAIT="false"),
        "DELAY": props(DELAY="3"),
        "DELAY 0": props(DELAY="0"),
        "DELAY -1": props(DELAY="-1"),
        "DELAY abc": props(DELAY="abc"),
        "TRAN_MSG": props(TRAN_MSG="true"),
        "TAGS": props(TAGS="of the header"),
    }.items():
        yield send(f"batch with {name}", two, 320, batch="true", properties=text)
    yield send("batch to a retry topic", two, 320, batch="true", topic="%RETRY%DiffGroup", reconsumeTimes="20")
    yield send("batch to queue -1", two, 320, batch="true", queueId="-1")
    yield send("batch to queue 1", two, 320, batch="true", queueId="1")
    yield send("batch to the schedule", two, 320, batch="true", topic="SCHEDULE_TOPIC_XXXX")


def _retries() -> Iterator[Case]:
    for times in (0, 1, 15, 16, 17, -1):
        for most in ("16", "1", "0", "-1", None):
            fields: dict[str, Any] = {
                "topic": "%RETRY%DiffGroup",
                "reconsumeTimes": str(times),
                "maxReconsumeTimes": most,
            }
            yield send(f"retry {times} of {most}", **fields)
    yield attrs.evolve(
        send("retry of an old client", topic="%RETRY%DiffGroup", reconsumeTimes="3", maxReconsumeTimes="1"),
        members={"version": 120},
    )
    for group in ("", " ", "DiffNoRetry", "DiffNoConsume", "DiffFresh", "a b"):
        yield send(f"retry of group {group!r}", topic=f"%RETRY%{group}", reconsumeTimes="99")
    yield send("retry with DELAY", topic="%RETRY%DiffGroup", reconsumeTimes="99", properties=props(DELAY="4"))
    yield send("retry with DELAY stays", topic="%RETRY%DiffGroup", reconsumeTimes="1", properties=props(DELAY="4"))


def _replies() -> Iterator[Case]:
    for code in (324, 325):
        to: dict[str, Any] = {"topic": "DefaultCluster_REPLY_TOPIC"}
        yield send("reply without an asker", code=code, **to)
        yield send("reply to nobody", code=code, **to, properties=props(REPLY_TO_CLIENT="nobody", CORRELATION_ID="c"))
        yield send("reply to no topic", code=code, topic="a b")
        yield send("reply in a batch", code=code, **to, batch="true")
        yield send("reply to queue 9", code=code, **to, queueId="9")
        kinds = {key: _KINDS[key] for key in ("topic", "queueId", "sysFlag", "bornTimestamp", "properties")}
        letters = {(_LETTERS[key] if code == 325 else key): values for key, values in kinds.items()}
        flag_field = "sysFlag" if code == 324 else "f"
        yield from mutated(send("reply", code=code, **to), letters, leave={flag_field: _SYS_FLAGS_THAT_CHANGE_LENGTHS})


class _At:
    """Fields of which some are only known when they are sent."""

    def __init__(self, fields: Mapping[str, object], **late: Any) -> None:
        self._fields, self._late = fields, late

    def __call__(self, site: Site) -> Fields:
        return {**{key: make(site) for key, make in self._late.items()}, **self._fields}


def _sent_back() -> Iterator[Case]:
    plain = {
        "group": "DiffGroup",
        "delayLevel": "0",
        "originMsgId": "7F0000010001",
        "originTopic": "DiffOne",
        "unitMode": "false",
        "maxReconsumeTimes": "16",
    }
    kinds: Mapping[str, tuple[object, ...]] = {
        "group": (*GROUP, "DiffNoRetry", "DiffNoConsume"),
        "delayLevel": INT,
        "originMsgId": TEXT,
        "originTopic": TOPIC,
        "unitMode": BOOL,
        "maxReconsumeTimes": INT,
    }
    yield send("to be sent back", properties=props(TAGS="a", KEYS="back", UNIQ_KEY="7F0000010002"))
    offset = {"offset": lambda site: stored_at(site, "send 310 to be sent back")}
    for case in mutated(Case("send back", _TO, 36, plain), kinds):
        at = _At(case.fields, **offset) if isinstance(case.fields, Mapping) and case.fields else case.fields
        yield attrs.evolve(case, fields=at)
    for level in (-1, 1, 3, 18, 19, 100):
        yield Case(f"send back level {level}", _TO, 36, _At({**plain, "delayLevel": level}, **offset))
    for value in ("0", "-1", "1", "99999999999", "abc", "9223372036854775807", "9223372036854775808"):
        yield Case(f"send back offset {value}", _TO, 36, {**plain, "offset": value})
    yield Case("send back offset missing", _TO, 36, plain)
    yield Case(
        "send back by an old client",
        _TO,
        36,
        _At({**plain, "maxReconsumeTimes": "0"}, **offset),
        members={"version": 120},
    )
    yield Case("send back oneway", _TO, 36, _At(plain, **offset), members={"flag": 2})
    yield Case("topics after send backs", _TO, 21)


def _transactions() -> Iterator[Case]:
    half = props(TRAN_MSG="true", PGROUP="DiffProducers", UNIQ_KEY="7F0000010003", TAGS="t", KEYS="half")
    plain: dict[str, object] = {
        "producerGroup": "DiffProducers",
        "commitOrRollback": "8",
        "fromTransactionCheck": "false",
        "msgId": "7F0000010003",
        "transactionId": "7F0000010003",
    }
    yield send("half", properties=half, sysFlag="4")
    at = {
        "commitLogOffset": lambda site: stored_at(site, "send 310 half"),
        "tranStateTableOffset": lambda site: queue_offset_of(site, "send 310 half"),
    }
    kinds: Mapping[str, tuple[object, ...]] = {
        "producerGroup": GROUP,
        "commitOrRollback": ("", "abc", "-1", "4", "5", "2147483648"),
        "fromTransactionCheck": BOOL,
        "msgId": TEXT,
        "transactionId": TEXT,
    }
    silent = {"", "abc", "-1", "4", "5", "2147483648"}
    for case in mutated(Case("end transaction", _TO, 37, plain), kinds):
        fields = _At(case.fields, **at) if isinstance(case.fields, Mapping) and case.fields else case.fields
        is_silent = isinstance(case.fields, Mapping) and case.fields.get("commitOrRollback") in silent
        yield attrs.evolve(case, fields=fields, is_silent=is_silent)
    for name, value in (("rollback", "12"), ("unknown", "0")):
        for checked in ("true", "false"):
            yield Case(
                f"end transaction {name} checked {checked}",
                _TO,
                37,
                _At({**plain, "commitOrRollback": value, "fromTransactionCheck": checked}, **at),
                is_silent=value == "0",
            )
    for field in ("commitLogOffset", "tranStateTableOffset"):
        for value in ("0", "1", "-1", "999999999", "abc", "9223372036854775808"):
            yield Case(f"end transaction {field} {value}", _TO, 37, _At({**plain, field: value}, **at))
        late = {key: make for key, make in at.items() if key != field}
        yield Case(f"end transaction {field} missing", _TO, 37, _At(plain, **late))
    yield Case("end transaction oneway", _TO, 37, _At(plain, **at), members={"flag": 2})
    yield send("half delayed", properties=half + props(DELAY="3"), sysFlag="4")
    yield send("half to an unknown topic", properties=half, topic="DiffHalf")
    yield send("half to a retry topic", properties=half, topic="%RETRY%DiffGroup")
    yield send("half to no queue", properties=half, queueId="7")
    yield send("half without a group", properties=props(TRAN_MSG="true"))
    yield send("half by sysFlag alone", sysFlag="4")
    for name in ("half delayed", "half to an unknown topic", "half to a retry topic"):
        where = {
            "commitLogOffset": lambda site, name=name: stored_at(site, f"send 310 {name}"),
            "tranStateTableOffset": lambda site, name=name: queue_offset_of(site, f"send 310 {name}"),
        }
        yield Case(f"commit of {name}", _TO, 37, _At(plain, **where))
    for message_id in ("", "abc", "7F000001", "7F0000010000000000000000000000FF", None):
        yield Case(f"resume check of {message_id!r}", _TO, 323, {"msgId": message_id})
    yield Case(
        "resume check of a half message",
        _TO,
        323,
        lambda site: {"msgId": (site.answers["send 310 half"].fields or {})["msgId"]},
    )
    yield Case("resume check without fields", _TO, 323)
