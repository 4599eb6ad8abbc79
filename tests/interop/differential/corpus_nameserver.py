"""Every request of a nameserver, and what it knows after it.

Brokers without a name, an address or a cluster are left out: 4.9 keeps them under null, which shows in all that comes
after (docs/departures.md).
"""

import json
import zlib
from collections.abc import Iterator, Mapping

import attrs

from tests.interop.differential.case import Case, Corpus
from tests.interop.differential.mutations import BOOL, INT, LONG, TEXT, TOPIC, mutated
from tests.interop.differential.wire import ROCKETMQ

_REGISTER, _UNREGISTER, _ROUTE = 103, 104, 105
_TO = "namesrv"
_FAKE = "namesrv fake"
"""A connection of its own: what registers over it is gone with it."""


def cases() -> Corpus:
    return [*_kv(), *_registration(), *_lists(), *_perms(), *_deleted(), *_settings(), *_unknown()]


def _ask(name: str, code: int, fields: Mapping[str, object] | None = None, body: bytes = b"", **more: object) -> Case:
    return attrs.evolve(Case(f"ns {code} {name}", _TO, code, fields, body), **more)  # type: ignore[arg-type]


def _kv() -> Iterator[Case]:
    put = {"namespace": "DiffSpace", "key": "k", "value": "v"}
    texts = {"namespace": TEXT, "key": TEXT}
    yield from mutated(_ask("put", 100, put), {**texts, "value": TEXT})
    yield from mutated(_ask("get", 101, {"namespace": "DiffSpace", "key": "k"}), texts)
    yield from mutated(_ask("list", 219, {"namespace": "DiffSpace"}), {"namespace": TEXT})
    yield _ask("list of nulls", 219, {"namespace": "null"})
    yield from mutated(_ask("delete", 102, {"namespace": "DiffSpace", "key": "k"}), texts)
    yield from mutated(_ask("list after", 219, {"namespace": "DiffSpace"}), {"namespace": TEXT})
    yield _ask("oneway put", 100, {**put, "key": "oneway"}, members={"flag": 2})
    yield _ask("after oneway", 101, {"namespace": "DiffSpace", "key": "oneway"})
    yield _ask("order topics", 100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "DiffOrder", "value": "fake-b:4"})


def topic_config(name: str, **more: object) -> dict[str, object]:
    """Configuration of a topic, as a broker registers it."""
    plain = {
        "topicName": name,
        "readQueueNums": 4,
        "writeQueueNums": 4,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    return {**plain, **more}


def registration(*topics: dict[str, object], counter: int = 1, filters: list[str] | None = None) -> bytes:
    """Body of a request that registers a broker."""
    table = {str(topic["topicName"]): topic for topic in topics}
    version = {"timestamp": 1_700_000_000_000, "counter": counter}
    body = {"topicConfigSerializeWrapper": {"topicConfigTable": table, "dataVersion": version}}
    return json.dumps({**body, "filterServerList": filters or []}).encode()


def _has_names(case: Case) -> bool:
    fields = case.fields
    if not isinstance(fields, Mapping) or not fields:
        return True
    names = [fields.get(name) for name in ("brokerName", "brokerAddr", "clusterName")]
    return None not in names and not (case.codec == ROCKETMQ and "" in names)  # there, an empty value is null


def _registration() -> Iterator[Case]:
    fields: dict[str, object] = {
        "brokerName": "fake-b",
        "brokerAddr": "127.0.0.9:1",
        "clusterName": "FakeCluster",
        "haServerAddr": "127.0.0.9:2",
        "brokerId": "0",
        "compressed": "false",
        "bodyCrc32": "0",
    }
    body = registration(
        topic_config("FakeTopic"), topic_config("FakeUnit", topicSysFlag=1), topic_config("FakeUnitSub", topicSysFlag=2)
    )
    register = attrs.evolve(_ask("register", _REGISTER, fields, body), to=_FAKE)
    kinds = {
        "brokerName": TEXT,
        "brokerAddr": TEXT,
        "clusterName": TEXT,
        "haServerAddr": TEXT,
        "brokerId": LONG,
        "compressed": BOOL,
        "bodyCrc32": INT,
    }
    yield from filter(_has_names, mutated(register, kinds))
    for name, raw in {
        "no body": b"",
        "null": b"null",
        "empty object": b"{}",
        "empty list": b"[]",
        "junk": b"junk",
        "half": body[:40],
        "no wrapper": b'{"filterServerList":[]}',
        "no table": b'{"topicConfigSerializeWrapper":{"dataVersion":{"timestamp":1,"counter":1}}}',
        "no version": b'{"topicConfigSerializeWrapper":{"topicConfigTable":{}}}',
        "null table": b'{"topicConfigSerializeWrapper":{"topicConfigTable":null,"dataVersion":{"counter":1}}}',
        "null topic": b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"FakeNull":null},"dataVersion":{"counter":77}}}',
        "no filters": registration(topic_config("FakeTopic2"), counter=2).replace(b'"filterServerList": []', b'"x": 1'),
        "filters": registration(topic_config("FakeTopic2"), counter=3, filters=["127.0.0.9:5"]),
        "other queues": registration(topic_config("FakeTopic", readQueueNums=1), counter=4),
        "odd topic": registration({"topicName": "FakeOdd"}, counter=5),
        "ordinal type": registration(topic_config("FakeTopic", topicFilterType=1, perm="4"), counter=6),
        "unknown type": registration(topic_config("FakeTopic", topicFilterType="XX"), counter=7),
        "negative queues": registration(topic_config("FakeTopic3", readQueueNums=-1), counter=8),
        "more members": registration(topic_config("FakeTopic", attributes={"a": "b"}, more=[1]), counter=9),
        "same version": registration(topic_config("FakeLate"), counter=9),
        "back": body,
    }.items():
        yield attrs.evolve(register, name=f"ns 103 register, body {name}", body=raw)
        yield _ask(f"all topics after body {name}", 206)
        yield _ask(f"route after body {name}", _ROUTE, {"topic": "FakeTopic"})
    crc = zlib.crc32(body) & 0x7FFFFFFF
    for name, more, raw in (
        ("right CRC", {"bodyCrc32": str(crc)}, body),
        ("wrong CRC", {"bodyCrc32": str(crc + 1)}, body),
        ("unmasked CRC", {"bodyCrc32": str(zlib.crc32(body))}, body),
        ("compressed", {"compressed": "true"}, zlib.compress(body)),
        (
            "compressed, with CRC",
            {"compressed": "true", "bodyCrc32": str(zlib.crc32(zlib.compress(body)) & 0x7FFFFFFF)},
            zlib.compress(body),
        ),
        ("said to be compressed", {"compressed": "true"}, body),
        ("compressed unsaid", {}, zlib.compress(body)),
    ):
        yield attrs.evolve(register, name=f"ns 103 register {name}", fields={**fields, **more}, body=raw)
    for version in (0, 36, 37, 400, 401, 700):
        yield attrs.evolve(register, name=f"ns 103 register by version {version}", members={"version": version})
    slave = {**fields, "brokerId": "1", "brokerAddr": "127.0.0.9:3", "haServerAddr": "127.0.0.9:4"}
    yield attrs.evolve(register, name="ns 103 register a slave", fields=slave)
    yield attrs.evolve(register, name="ns 103 register a slave, binary", fields=slave, codec=ROCKETMQ)
    yield attrs.evolve(register, name="ns 103 register a slave as master", fields={**slave, "brokerId": "0"})
    yield attrs.evolve(register, name="ns 103 register oneway", fields=fields, members={"flag": 2})
    yield _ask("clusters after registrations", 106)
    version_fields = {key: fields[key] for key in ("brokerName", "brokerAddr", "clusterName", "brokerId")}
    data_version = b'{"timestamp":1700000000000,"counter":1}'
    query = _ask("version", 322, version_fields, data_version)
    yield from mutated(query, {key: kinds[key] for key in version_fields})
    for raw in (b"", b"null", b"{}", b"[]", b"junk", b'{"counter":1}', b'{"timestamp":1700000000000,"counter":"1"}'):
        yield attrs.evolve(query, name=f"ns 322 version {raw!r}", body=raw)
    yield attrs.evolve(query, name="ns 322 unknown address", fields={**version_fields, "brokerAddr": "127.0.0.9:99"})


def _lists() -> Iterator[Case]:
    yield from mutated(
        _ask("route", _ROUTE, {"topic": "FakeTopic", "acceptStandardJsonOnly": "true"}),
        {"topic": TOPIC, "acceptStandardJsonOnly": BOOL},
    )
    for version in (0, 317, 400, 401, 409, 479):
        yield _ask(f"route for version {version}", _ROUTE, {"topic": "FakeTopic"}, members={"version": version})
    for topic in ("TBW102", "broker-a", "DefaultCluster", "FakeUnit", "DiffOrder", "FakeOdd", "FakeNull"):
        yield _ask(f"route of {topic}", _ROUTE, {"topic": topic})
    for code in (106, 206, 304, 311, 312, 313):
        # Which broker's address 304 gives is chance (docs/departures.md).
        case = _ask("list", code, show=(lambda body: body["topicList"]) if code == 304 else None)
        yield from (case, attrs.evolve(case, name=f"{case.name}, binary", codec=ROCKETMQ))
        yield attrs.evolve(case, name=f"{case.name}, odd field and body", fields={"x": "y"}, body=b"junk")
        yield attrs.evolve(case, name=f"{case.name}, oneway", members={"flag": 2})
    yield from mutated(_ask("topics of", 224, {"cluster": "FakeCluster"}), {"cluster": TEXT})
    yield _ask("topics of our cluster", 224, {"cluster": "DefaultCluster"})


def _perms() -> Iterator[Case]:
    for code in (205, 327):
        yield from mutated(_ask("perm", code, {"brokerName": "fake-b"}), {"brokerName": TEXT})
        yield _ask(f"route after {code}", _ROUTE, {"topic": "FakeTopic"})
        yield _ask(f"twice {code}", code, {"brokerName": "fake-b"})


def _deleted() -> Iterator[Case]:
    yield from mutated(
        _ask("delete", 216, {"topic": "FakeUnit", "clusterName": "FakeCluster"}), {"topic": TEXT, "clusterName": TEXT}
    )
    for topic in ("FakeUnit", "FakeTopic", "TBW102"):
        yield _ask(f"route of {topic} after deletes", _ROUTE, {"topic": topic})
    unregister = {"brokerName": "fake-b", "brokerAddr": "127.0.0.9:3", "clusterName": "FakeCluster", "brokerId": "1"}
    kinds = {"brokerName": TEXT, "brokerAddr": TEXT, "clusterName": TEXT, "brokerId": LONG}
    yield from filter(_has_names, mutated(_ask("unregister", _UNREGISTER, unregister), kinds))
    yield _ask("clusters after unregister", 106)
    yield _ask("unregister the rest", _UNREGISTER, {**unregister, "brokerAddr": "127.0.0.9:1", "brokerId": "0"})
    yield _ask("clusters at last", 106)
    yield _ask("topics at last", 206)


def _settings() -> Iterator[Case]:
    for name, body in {
        "nothing": b"",
        "unknown key": b"noSuchKey=1\n",
        "order messages": b"orderMessageEnable=true",
        "black listed": b"kvConfigPath=/tmp/x\n",
        "black listed path": b"configStorePath=/tmp/x\n",
        "a home": b"rocketmqHome=/tmp/x\n",
        "junk": b"junk",
        "no UTF-8": b"\xff\xfe=1",
        "wrong type": b"orderMessageEnable=5",
        "blanks": b"  orderMessageEnable : false \n# x\n",
    }.items():
        yield _ask(f"set {name}", 318, None, body)
        yield _ask(f"route after set {name}", _ROUTE, {"topic": "TBW102"})
    yield _ask("settings", 319)
    yield _ask("settings, binary", 319, codec=ROCKETMQ)


def _unknown() -> Iterator[Case]:
    for code in (0, 1, 10, 34, 107, 217, 9999, -1):
        yield _ask("unknown code", code, is_silent=True)
