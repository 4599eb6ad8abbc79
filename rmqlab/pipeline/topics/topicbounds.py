"""Queues and offsets to read: resolves options with nameservers and brokers.

This code runs while Spark plans. It keeps state: a queue remains even if all its brokers have disappeared.
"""

import itertools
import logging
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TypeVar

import attrs
import trio

from rmqlab.client.admin import Admin
from rmqlab.client.errors import BrokerError, NoRouteError
from rmqlab.client.instance import FAILURES, Client
from rmqlab.pipeline.errors import UserError
from rmqlab.pipeline.options import shortened
from rmqlab.pipeline.topics import queues
from rmqlab.pipeline.topics.blocking_client import first_failure
from rmqlab.pipeline.topics.groupoffsets import Commits, committed_offset, groups_at
from rmqlab.pipeline.topics.queues import AskBound, GatheredBounds, UnreachableError
from rmqlab.pipeline.topics.refusals import lacks_filter
from rmqlab.pipeline.topics.silence import Silence, silences
from rmqlab.pipeline.topics.timesearch import PROBES, offset_at
from rmqlab.pipeline.topics.topicoffsets import EARLIEST, LATEST, AtTime, QueueName, QueuePosition, near_queue
from rmqlab.pipeline.topics.topicoptions import NAME, TopicOptions
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic
from rmqlab.runtime.text.nearmiss import near_miss

T = TypeVar("T")
log = logging.getLogger(__name__)
_BOUNDS_SECONDS = 10.0
_ROUTES_AT_ONCE = 32
"""Requests for routes in flight to a nameserver."""


class PlanError(UserError):
    """The options cannot be resolved: no nameserver, topic or broker.

    The text says what to do.
    """


class DataLossError(UserError):
    """Messages of the requested range are lost, and `failOnDataLoss` is set."""


@attrs.define(eq=False)
class Bounds:
    """The topics, queues and brokers seen so far. Requests have timeouts."""

    options: TopicOptions
    may_skip: bool = False
    """True omits queues of broker groups that do not respond, with a warning."""
    members: dict[str, dict[int, str]] = attrs.field(factory=dict)
    queues: set[QueueName] = attrs.field(factory=set)
    """The queues to read."""
    in_routes: set[QueueName] = attrs.field(factory=set)
    """All queues of these topics that routes had; option assign may name few of them."""
    _skipped: set[QueueName] = attrs.field(factory=set, init=False)
    _last_warning: str = attrs.field(default="", init=False)

    # -- topics ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Fetch the topics and their routes.

        Raises PlanError if a topic cannot be read, if a queue of option assign does not exist, or if no route has a
        broker of the options brokers and assign.
        """
        self.options.link.call(self._read_routes)
        self.check_assignment()
        if (problem := self._missing()) is None:
            return
        if not self.may_skip:
            raise PlanError(f"{problem}. Start the broker, or set failOnDataLoss to false to read without it")
        self.warn(f"{problem}. Its messages are left out")

    async def look_again(self, client: Client) -> None:
        """Fetch the routes again; on failure the previous ones remain."""
        try:
            await self._read_routes(client)
        except PlanError as exc:
            self.warn(str(exc))

    def warn(self, text: str) -> None:
        """Log a warning unless it equals the last one.

        Planning is repeated several times per second.
        """
        if text != self._last_warning:
            log.warning("%s", text)
        self._last_warning = text

    def check_begun(self, begun: Collection[QueueName]) -> None:
        """Raise PlanError for a queue of the checkpoint that the options do not select.

        The stream would return messages of other topics.
        """
        if outside := sorted(queue for queue in begun if not self._is_selected(queue)):
            option = self.options.topic_option
            raise PlanError(
                f"{NAME}: the checkpoint has {shortened(outside)}, which option {option} does not name. "
                f"Name {'these queues' if option == 'assign' else 'their topic'}, or start with another checkpoint"
            )

    def _is_selected(self, queue: QueueName) -> bool:
        if self.options.topic_pattern:
            return re.fullmatch(self.options.topic_pattern, queue.topic) is not None and self._may_match(queue.topic)
        return queue.topic in self.options.named_topics and self.options.reads(queue)

    def check_assignment(self) -> None:
        """Raise PlanError for queues of option assign that their broker lacks."""
        assigned = self.options.assign
        with_topic = {(queue.topic, queue.broker) for queue in self.in_routes}
        if unknown := [queue for queue in assigned - self.queues if (queue.topic, queue.broker) in with_topic]:
            raise PlanError(self._unassignable(sorted(unknown), "there is no queue"))

    def absences(self) -> list[Silence]:
        """Return the brokers of options brokers and assign whose queues no route has."""
        brokers = [Silence(name, (), "no route has this broker") for name in self._absent_brokers()]
        return brokers + silences(dict.fromkeys(self.options.assign - self.queues, "no route has this queue"))

    def _absent_brokers(self) -> list[str]:
        return sorted(set(self.options.brokers) - {queue.broker for queue in self.queues})

    def _missing(self) -> str | None:
        if absent := self._absent_brokers():
            near = near_miss(absent[0], self.members.keys() - set(self.options.brokers))
            return f"{NAME}: no route has {', '.join(absent)} of option brokers{near}; {self.routed}"
        if lost := sorted(self.options.assign - self.queues):
            return self._unassignable(lost, "no route has")
        return None

    def _unassignable(self, named: Sequence[QueueName], problem: str) -> str:
        brokers = {queue.broker for queue in self.options.assign}
        near = near_queue(named[0], [queue for queue in self.in_routes if queue.broker not in brokers])
        there = shortened(sorted(self.in_routes))
        return f"{NAME}: {problem} {shortened(named)} of option assign{near}; queues in routes: {there}"

    @property
    def routed(self) -> str:
        """List the brokers in routes, for errors."""
        return f"brokers in routes: {shortened(sorted(self.members)) or 'none'}"

    async def _read_routes(self, client: Client) -> None:
        known = len(self.queues)
        topics = await self._topics(client)
        routes: dict[str, queues.Topic | Exception] = {}
        limiter = trio.CapacityLimiter(_ROUTES_AT_ONCE)

        async def fetch(topic: str) -> None:
            async with limiter:
                try:
                    routes[topic] = await queues.topic_of(client, topic)
                except (NoRouteError, *FAILURES) as exc:
                    routes[topic] = exc

        async with trio.open_nursery() as nursery:
            for topic in topics:
                nursery.start_soon(fetch, topic)
        failures: dict[str, Exception] = {}
        for topic in topics:
            found = routes[topic]
            if isinstance(found, Exception):
                failures[topic] = found
                continue
            self.members = queues.merged(self.members, found.members)
            self.in_routes.update(found.queues)
            self.queues.update(queue for queue in found.queues if self.options.reads(queue))
        if len(self.queues) != known:
            log.info("%s: %d queues to read; %s", NAME, len(self.queues), self.routed)
        for topic, failure in failures.items():
            raise await self._without_route(client, topic, failure)

    async def _without_route(self, client: Client, topic: str, failure: Exception) -> PlanError:
        if isinstance(failure, NoRouteError):
            return PlanError(f"{NAME}: {await self._unknown(client, topic)}")
        return PlanError(f"{NAME}: cannot fetch the route of topic {topic}: {failure}")

    async def _topics(self, client: Client) -> Sequence[str]:
        if not self.options.topic_pattern:
            return self.options.named_topics
        pattern = re.compile(self.options.topic_pattern)
        try:
            known = await _topics_of(client)
        except FAILURES as exc:
            raise PlanError(f"{NAME}: cannot fetch the list of topics: {exc}") from None
        found = [name for name in known if pattern.fullmatch(name) and self._may_match(name)]
        if not found and not self.queues:
            raise PlanError(f"{NAME}: no topic matches {self.options.topic_pattern!r}; topics: {shortened(known)}")
        return found

    def _may_match(self, topic: str) -> bool:
        """Return True if a pattern may match a topic.

        Retry and dead-letter topics match only patterns that contain `%`, so that `.*` means ordinary topics.
        """
        return "%" in self.options.topic_pattern or not topic.startswith((RETRY_PREFIX, DLQ_PREFIX))

    async def _unknown(self, client: Client, topic: str) -> str:
        problem = f"there is no topic {topic}"
        place = f"(nameserver {self.options.name_server})"
        try:
            known = await _topics_of(client)
        except FAILURES:
            return f"{problem} {place}"
        if known:
            return f"{problem}{near_miss(topic, known)} {place}"
        if self.options.namespace:
            return f"{problem}, nor any other in namespace {self.options.namespace} {place}"
        return f"{problem}: brokers have not yet registered, or have all left {place}"

    def try_reading(self, starts: Mapping[QueueName, int]) -> None:
        """Pull a message of one queue of each broker.

        Raises PlanError if it refuses: account, group, filter. Ignores brokers that do not respond: they may be
        available when their messages are read.
        """
        samples = {queue.broker: queue for queue in sorted(starts, reverse=True)}

        async def try_all(client: Client) -> None:
            async def one(queue: QueueName) -> None:
                members, reading = self.members.get(queue.broker, {}), self.options.reading
                try:
                    await queues.try_pull(client, queue, members, starts[queue], reading)
                except BrokerError as exc:
                    raise PlanError(f"{NAME}: {queue} cannot be read: {exc}{_advice(exc, self.options)}") from None

            await queues.for_each_queue(samples.values(), one)

        self._call(try_all)

    # -- offsets ---------------------------------------------------------------------------------

    async def gather(self, client: Client, ask: AskBound, of: Collection[QueueName]) -> GatheredBounds:
        """Return a bound of each of these queues, or the reason why it is missing."""
        seconds = max(_BOUNDS_SECONDS, 2 * self.options.reading.request_seconds)  # for a slave after its silent master
        return await queues.gather_bounds(client, sorted(of), self.members, ask, seconds=seconds)

    def resolve(self, places: Mapping[QueueName, QueuePosition]) -> dict[QueueName, int]:
        """Return the offsets of places in these queues.

        Raises PlanError for an offset beyond a queue's end.
        """

        async def find(client: Client, queue: QueueName) -> int:
            return await _offset_of(client, queue, self.members.get(queue.broker, {}), places[queue])

        return self._find_all(find, places, requests=PROBES)

    def commits(self) -> Commits:
        """Return the committed offsets of the group of option startingGroup.

        Empty without this option. Queues where the group has no commit are missing.

        No request of 4.9.8 has a group's offsets and distinguishes offset 0 from no commit, for several queues:
        GET_CONSUME_STATS does not distinguish them, and GET_ALL_CONSUMER_OFFSET has those of all groups.
        """
        if not (group := self.options.starting_group):
            return Commits()

        async def find_groups(client: Client, queue: QueueName) -> list[str]:
            return await groups_at(client, queue, self.members.get(queue.broker, {}))

        async def find_offset(client: Client, queue: QueueName) -> int | None:
            return await committed_offset(client, queue, self.members.get(queue.broker, {}), group)

        samples = {(queue.topic, queue.broker): queue for queue in sorted(self.queues, reverse=True)}
        groups = {queue[:2]: names for queue, names in self._find_all(find_groups, samples.values()).items()}
        silent = samples.keys() - groups.keys()
        self._skipped.update(queue for queue in self.queues if queue[:2] in silent)  # their commits are unknown
        consumed = [queue for queue in self.queues if group in groups.get(queue[:2], ())]
        offsets = self._find_all(find_offset, consumed)
        return Commits(
            {queue: offset for queue, offset in offsets.items() if offset is not None},
            frozenset(itertools.chain.from_iterable(groups.values())),
        )

    def _find_all(
        self,
        find: Callable[[Client, QueueName], Awaitable[T]],
        of: Collection[QueueName],
        *,
        requests: int = 1,
    ) -> dict[QueueName, T]:
        """Return what `find` returns for each of these queues.

        It makes up to `requests` requests at a time. Raises PlanError for queues of groups that do not respond, unless
        they may be skipped.
        """
        found: dict[QueueName, T] = {}
        silent: dict[QueueName, str] = {}

        async def find_all(client: Client) -> None:
            async def one(queue: QueueName) -> None:
                try:
                    found[queue] = await find(client, queue)
                except UnreachableError as exc:
                    if exc.is_refused:
                        raise PlanError(f"{NAME}: {exc}") from None
                    silent[queue] = exc.reason

            await queues.for_each_queue(sorted(set(of) - self._skipped), one, requests=requests)

        self._call(find_all)
        self._skip(silent)
        return found

    def _call(self, fn: Callable[[Client], Awaitable[None]]) -> None:
        """Run concurrent requests.

        Raises the first failure, as PlanError if it is a server's.
        """
        try:
            self.options.link.call(fn)
        except BaseExceptionGroup as group:
            failure = first_failure(group)
            if isinstance(failure, FAILURES):
                failure = PlanError(f"{NAME}: {failure}")
            raise failure from None

    def _skip(self, silent: Mapping[QueueName, str]) -> None:
        """Exclude silent queues from later requests.

        Raises PlanError if they may not be skipped.
        """
        if not silent:
            return
        problem = f"{NAME}: {'; '.join(map(str, silences(silent)))}; {self.routed}"
        if not self.may_skip:
            raise PlanError(f"{problem}. Start the broker and read again; no loss of messages was detected")
        self._skipped.update(silent)
        self.warn(f"{problem}. Their messages are left out")


async def _topics_of(client: Client) -> list[str]:
    """Return the topics that are not RocketMQ's own, in the names of the namespace.

    The namespace is the client's. Raises FAILURES.
    """
    topics = [name for name in await Admin(client).topics() if not is_system_topic(name)]
    return sorted(client.unnamed(name) for name in topics if client.named(name) == name)


async def _offset_of(client: Client, queue: QueueName, members: Mapping[int, str], place: QueuePosition) -> int:
    """Return the offset of a place.

    Raises PlanError for a place beyond the end, and UnreachableError.
    """
    if isinstance(place, AtTime):
        offset = await offset_at(client, queue, members, place.millis)
        if place.must_exist:
            await _check_exists(client, queue, members, place.millis, offset)
        return offset
    if place == EARLIEST:
        return (await queues.min_offset(client, queue, members)).offset
    if place == LATEST:
        return (await queues.max_offset(client, queue, members)).offset
    await _check_within(client, queue, members, place)
    return place


async def _check_within(client: Client, queue: QueueName, members: Mapping[int, str], offset: int) -> None:
    """Raise PlanError for an offset beyond the end of a queue at its master.

    A slave may lag. Raises UnreachableError.
    """
    bound = await queues.max_offset(client, queue, members)
    if bound.is_masters and offset > bound.offset:
        raise PlanError(f"{NAME}: {queue} ends at offset {bound.offset}, but the requested offset is {offset}")


async def _check_exists(client: Client, queue: QueueName, members: Mapping[int, str], millis: int, offset: int) -> None:
    """Raise PlanError if a queue ends before the offset found for a time.

    Raises UnreachableError.
    """
    if offset >= (await queues.max_offset(client, queue, members)).offset:
        raise PlanError(
            f"{NAME}: {queue} has no message stored at {millis} ms or later. Choose an earlier time, or set option "
            "startingOffsetsByTimestampStrategy to latest"
        )


def _advice(refusal: BrokerError, options: TopicOptions) -> str:
    if refusal.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST:
        return f". Create group {options.group}, or set the option groupId to an existing group."
    if lacks_filter(refusal.remark or ""):
        return ". Set enablePropertyFilter to true at the brokers of the topic, or leave the option sqlExpression out."
    return ""
