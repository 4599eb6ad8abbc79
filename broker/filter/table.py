"""Expressions that consumer groups have registered by heartbeat.

Class ConsumerFilterManager. An expression outlives its consumers: when a group's last consumer disconnects, it is
marked dead, and removed a day later. The table is kept in consumerFilter.json, and filters for groups that pull without
an expression of their own. The file may have 40 MB: it is encoded in slices, and written by a thread, so that no client
waits for it (issue 12.6).
"""

import itertools
import pathlib
from collections.abc import Callable, Container, Iterable, Iterator

import msgspec
import trio

from rmqlab.broker.filter.bloom import BloomFilter
from rmqlab.broker.filter.lexer import FilterError
from rmqlab.broker.filter.sql92 import CompiledFilter, compile_filter
from rmqlab.remoting.bodies.filter import SQL92, ConsumerFilterData, FilterTableBody, pretty_parts
from rmqlab.remoting.bodies.heartbeat import SubscriptionData
from rmqlab.runtime.net.worker import in_thread
from rmqlab.store.files.configfile import keep_config_file, load_config_file

MAX_FILTERS = 10_000
"""Maximum filters, by topic and group; includes dead filters, which are kept for a day."""
MAX_CHARACTERS = 32 * 2**20
"""Characters of all expressions together, with the names of their topics and groups as often as the file has them."""
MAX_NAME_SIZE = 1024
"""Characters of a topic's and a group's name together, as for committed offsets. 4.9.8 has no limit."""
_ENCODED_AT_ONCE = 100
"""Filters that are encoded before other tasks have their turn."""
DEAD_BEFORE_LOAD = 30_000
"""Milliseconds since death that are assumed for filters which a loaded file marks as alive."""


def is_tag_type(expression_type: str | None) -> bool:
    """True for filters by tags, which need no registration."""
    return expression_type in (None, "", "TAG")


def compiled(expression_type: str, expression: str) -> CompiledFilter:
    """Compile an expression of any type but TAG.

    FilterError if it is invalid or its type unknown.
    """
    if expression_type != SQL92:
        raise FilterError(f"there is no filter of type {expression_type}")
    return compile_filter(expression)


class ConsumerFilterTable:
    """Expressions by topic and group."""

    def __init__(self, path: pathlib.Path, now_millis: Callable[[], int], bloom: BloomFilter, keep_millis: int) -> None:
        self._path = path
        self._now_millis = now_millis
        self._bloom = bloom
        self._keep_millis = keep_millis
        self.topics: dict[str, dict[str, ConsumerFilterData]] = {}
        self._topics_of: dict[str, dict[str, None]] = {}
        """By group; a dict for a set that keeps its order. A heartbeat may name thousands of groups."""
        self._count = self._characters = 0
        self._is_changed = True
        self._saving = trio.Lock()
        loaded = load_config_file(path, FilterTableBody.decode)
        if loaded is not None:
            self._take_over(loaded)

    def find(self, topic: str, group: str) -> ConsumerFilterData | None:
        """Return the filter that a group registered for a topic, dead or alive."""
        return self.topics.get(topic, {}).get(group)

    def register(self, group: str, subscriptions: Iterable[SubscriptionData]) -> Iterator[None]:
        """Register all subscriptions of a group's heartbeat; yield before each expression.

        Filters of topics it no longer lists become dead.
        """
        named = set()
        for one in subscriptions:
            named.add(one.topic)
            if not is_tag_type(one.expression_type) and one.sub_string:
                yield
                self._register(group, one)
        self._bury(group, named)

    def unregister(self, group: str) -> None:
        """Mark the filters of a group without consumers as dead."""
        self._bury(group, ())

    def _bury(self, group: str, named: Container[str]) -> None:
        """Mark a group's filters as dead, except those of these topics."""
        for topic, data in self._of_group(group):
            if topic not in named and not data.is_dead:
                self._put(topic, group, data.dying(self._now_millis()))
                self._is_changed = True

    def save(self) -> None:
        """Write consumerFilter.json if the table changed, without expired entries."""
        if (parts := self._changed_parts()) is not None:
            keep_config_file(self._path, b"".join(parts))

    async def save_in_slices(self) -> None:
        """Write consumerFilter.json in slices, between which other tasks run."""
        async with self._saving:
            if (parts := self._changed_parts()) is None:
                return
            try:
                await self._write(parts)
            except BaseException:  # no thread, or the broker is stopped: the next save writes it
                self._is_changed = True
                raise

    async def _write(self, parts: Iterator[bytes]) -> None:
        slices: list[bytes] = []
        while part := b"".join(itertools.islice(parts, _ENCODED_AT_ONCE)):
            slices.append(part)
            await trio.lowlevel.checkpoint()
        await in_thread(keep_config_file, self._path, b"".join(slices))

    def _changed_parts(self) -> Iterator[bytes] | None:
        """Return the parts of the file as the table is now; None if it has not changed."""
        self._clean()
        if not self._is_changed:
            return None
        self._is_changed = False
        return pretty_parts({topic: dict(groups) for topic, groups in self.topics.items()})

    def _register(self, group: str, wanted: SubscriptionData) -> None:
        """Register one subscription if it is newer.

        A newer invalid expression marks the old filter as dead.
        """
        topic, known = wanted.topic, self.find(wanted.topic, group)
        self._is_changed = (
            self._is_changed or known is None or known.is_dead or known.client_version < wanted.sub_version
        )
        if known is not None and wanted.sub_version <= known.client_version:
            if wanted.sub_version == known.client_version and known.is_dead:
                self._put(topic, group, known.dying(0))
            return
        if known is None and (self._count >= MAX_FILTERS or len(topic) + len(group) > MAX_NAME_SIZE):
            return
        bloom = self._bloom.data(f"{group}#{wanted.topic}")
        fresh = ConsumerFilterData(
            bloom_filter_data=bloom,
            born_time=self._now_millis(),
            client_version=wanted.sub_version,
            consumer_group=group,
            expression=wanted.sub_string,
            expression_type=wanted.expression_type,
            topic=wanted.topic,
        )
        if known is not None and (known.expression, known.expression_type, known.bloom_filter_data) == (
            fresh.expression, fresh.expression_type, bloom,
        ):  # fmt: skip
            self._put(topic, group, msgspec.structs.replace(known.dying(0), client_version=wanted.sub_version))
            return
        try:
            compiled(wanted.expression_type, wanted.sub_string)
        except FilterError:
            if known is not None:
                self._remove(topic, group)
        else:
            if self._characters + _characters(fresh) <= MAX_CHARACTERS:
                self._put(topic, group, fresh)

    def _put(self, topic: str, group: str, data: ConsumerFilterData) -> None:
        groups = self.topics.setdefault(topic, {})
        if group in groups:
            self._characters -= _characters(groups[group])
        else:
            self._topics_of.setdefault(group, {})[topic] = None
            self._count += 1
        self._characters += _characters(data)
        groups[group] = data

    def _remove(self, topic: str, group: str) -> None:
        data = self.topics[topic].pop(group)
        self._count -= 1
        self._characters -= _characters(data)
        del self._topics_of[group][topic]
        if not self._topics_of[group]:
            del self._topics_of[group]

    def _of_group(self, group: str) -> list[tuple[str, ConsumerFilterData]]:
        return [(topic, self.topics[topic][group]) for topic in self._topics_of.get(group, ())]

    def _clean(self) -> None:
        dead_since = self._now_millis() - self._keep_millis
        for topic, groups in list(self.topics.items()):
            for group, data in list(groups.items()):
                if data.is_dead and data.dead_time <= dead_since:
                    self._remove(topic, group)
                    self._is_changed = True
            if not groups:
                del self.topics[topic]

    def _take_over(self, loaded: FilterTableBody) -> None:
        """Load the filters of a file, unless their bits have another filter's size."""
        tables = loaded.filter_data_by_topic
        entries = [data for table in tables.values() for data in table.group_filter_data.values()]
        if not all(self._bloom.is_valid(data.bloom_filter_data) for data in entries):
            return
        long_ago = self._now_millis() - DEAD_BEFORE_LOAD
        for topic, table in tables.items():
            for group, data in table.group_filter_data.items():
                if len(topic) + len(group) > MAX_NAME_SIZE:
                    continue
                self._put(topic, group, data if data.dead_time else data.dying(max(long_ago, data.born_time)))


def _characters(data: ConsumerFilterData) -> int:
    return len(data.expression or "") + 2 * (len(data.topic or "") + len(data.consumer_group or ""))
