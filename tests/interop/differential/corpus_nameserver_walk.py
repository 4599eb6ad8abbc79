"""Random sequences of what brokers, tools and clients ask a nameserver.

Brokers register over connections of their own, change topics, addresses and clusters, unregister, and lose their
connections. What depends on the order of a Java hash map is left out (docs/departures.md): two brokers of one
connection, a broker name in two clusters, and a topic that has different flags at its brokers.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from tests.interop.differential.case import Case, Corpus
from tests.interop.differential.corpus_nameserver import registration, topic_config
from tests.interop.differential.wire import JSON, ROCKETMQ

_TO = "namesrv"
_TOPICS = ("WalkA", "WalkB", "WalkC", "%RETRY%walk")


@attrs.frozen
class _Broker:
    """A broker that only registers."""

    name: str
    broker_id: int
    port: int
    cluster: str = "WalkCluster"

    @property
    def address(self) -> str:
        return f"127.0.0.9:{self.port}"

    def fields(self) -> dict[str, object]:
        return {
            "brokerName": self.name,
            "brokerAddr": self.address,
            "clusterName": self.cluster,
            "brokerId": self.broker_id,
        }


_BROKERS = (
    _Broker("walk-a", 0, 1),
    _Broker("walk-a", 1, 2),
    _Broker("walk-a", 0, 3),
    _Broker("walk-b", 0, 4),
    _Broker("walk-b", 2, 5),
    _Broker("walk-b", 1, 5),
    _Broker("walk-c", 0, 6, "WalkOther"),
)
_SYS_FLAGS = dict(zip(_TOPICS, range(4), strict=True))


def cases(seed: int = 1, steps: int = 600) -> Corpus:
    return list(_Walk(seed).cases(steps))


class _Walk:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._count = 0
        self._registered: set[str] = set()  # addresses

    def cases(self, steps: int) -> Iterator[Case]:
        actions = [self._register] * 4 + [self._unregister, self._close, self._permission, self._delete_topic]
        actions += [self._key] * 2 + [self._route] * 4 + [self._list] * 3 + [self._version]
        for _ in range(steps):
            self._count += 1
            yield self._pick(actions)()

    def _pick(self, values: Sequence[Any]) -> Any:
        return self._random.choice(values)

    def _case(self, code: int, fields: Mapping[str, object], body: bytes = b"", **more: Any) -> Case:
        codec = ROCKETMQ if self._random.random() < 0.2 else JSON
        name = f"walk {self._count} request {code}"
        return attrs.evolve(Case(name, _TO, code, fields, body, codec=codec), **more)

    # ---- brokers ----

    def _register(self) -> Case:
        broker = self._pick(_BROKERS)
        self._registered.add(broker.address)
        fields = {**broker.fields(), "haServerAddr": f"127.0.0.9:{broker.port + 100}"}
        body = registration(
            *(self._topic(name) for name in _TOPICS if self._random.random() < 0.6),
            counter=self._random.randrange(1, 5),
            filters=self._pick([None, None, [f"127.0.0.9:{broker.port + 200}"]]),
        )
        return self._case(103, {**fields, "compressed": "false", "bodyCrc32": "0"}, body, to=f"{_TO} {broker.address}")

    def _topic(self, name: str) -> dict[str, object]:
        return topic_config(
            name,
            readQueueNums=self._pick([1, 2, 4]),
            writeQueueNums=self._pick([1, 2, 4]),
            perm=self._pick([6, 6, 4, 2]),
            topicSysFlag=_SYS_FLAGS[name],
            order=self._pick([False, False, True]),
        )

    def _unregister(self) -> Case:
        broker = self._pick(_BROKERS)
        self._registered.discard(broker.address)
        return self._case(104, broker.fields())

    def _close(self) -> Case:
        if not self._registered:
            return self._register()
        address = self._pick(sorted(self._registered))
        self._registered.discard(address)
        return Case(f"walk {self._count}, {address} closes", f"{_TO} {address}", gone=(address,))

    def _version(self) -> Case:
        version = b'{"timestamp":1700000000000,"counter":%d}' % self._random.randrange(1, 5)
        return self._case(322, self._pick(_BROKERS).fields(), version)

    # ---- tools and clients ----

    def _permission(self) -> Case:
        return self._case(self._pick([205, 327]), {"brokerName": self._pick(["walk-a", "walk-b", "walk-none"])})

    def _delete_topic(self) -> Case:
        cluster = self._pick([{}, {}, {"clusterName": "WalkCluster"}, {"clusterName": "WalkNone"}])
        return self._case(216, {"topic": self._pick(_TOPICS), **cluster})

    def _key(self) -> Case:
        place = {"namespace": self._pick(["ORDER_TOPIC_CONFIG", "Walk"]), "key": self._pick([*_TOPICS, "k"])}
        code = self._pick([100, 100, 101, 102, 219])
        return self._case(code, {**place, "value": self._pick(["walk-a:4", "walk-a:4;walk-b:2", ""])})

    def _route(self) -> Case:
        more = {"acceptStandardJsonOnly": self._pick(["true", "false"])}
        members = {"version": self._pick([317, 401, 409])}
        return self._case(105, {"topic": self._pick([*_TOPICS, "TBW102"]), **more}, members=members)

    def _list(self) -> Case:
        code = self._pick([106, 106, 206, 224, 304, 311, 312, 313])
        # Which broker's address 304 has is chance (docs/departures.md).
        show = (lambda body: body["topicList"]) if code == 304 else None
        return self._case(code, {"cluster": self._pick(["WalkCluster", "WalkOther", "WalkNone"])}, show=show)
