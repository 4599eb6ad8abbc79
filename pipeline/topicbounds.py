"""What of which queues is to be read: options turned into offsets by asking name servers and brokers.

What is here runs while Spark plans. It holds what it has seen: a queue whose brokers are all gone stays known.
"""

import logging
import re
from collections.abc import Mapping, Sequence

import attrs
import trio

from client.admin import Admin
from client.errors import NoNameServerError, NoRouteError
from client.instance import FAILURES, Client
from pipeline import queues
from pipeline.link import Link, link_to
from pipeline.options import near_miss
from pipeline.queues import Bound, UnreachableError
from pipeline.topicoffsets import EARLIEST, LATEST, QueueName
from pipeline.topicoptions import NAME, Position, TopicOptions
from remoting.names import is_system_topic

log = logging.getLogger(__name__)
_BOUNDS_SECONDS = 10.0


class PlanError(Exception):
    """What is to be read cannot be told: no name server, no such topic, no broker. The text says what to do."""


class DataLossError(Exception):
    """Messages that were promised are gone, and `failOnDataLoss` makes that an error."""


@attrs.define(eq=False)
class Bounds:
    """Topics, their queues and brokers, as seen so far. Times out rather than waits."""

    options: TopicOptions
    members: dict[str, dict[int, str]] = attrs.field(factory=dict)
    queues: set[QueueName] = attrs.field(factory=set)

    @property
    def link(self) -> Link:
        return link_to(self.options.name_server)

    # -- topics ----------------------------------------------------------------------------------

    def look(self) -> None:
        """Learn the topics and their routes. PlanError where there is nothing to read from."""
        self.link.call(self._look)

    def look_again(self) -> None:
        """As `look`, but what cannot be learnt now stays as it was."""
        try:
            self.link.call(self._look)
        except PlanError as exc:
            log.warning("%s", exc)

    async def _look(self, client: Client) -> None:
        for topic in await self._topics(client):
            try:
                found = await queues.topic_of(client, topic)
            except NoRouteError:
                raise PlanError(f"{NAME}: {await self._unknown(client, topic)}") from None
            except FAILURES as exc:
                raise PlanError(f"{NAME}: the route of topic {topic} cannot be had: {exc}") from None
            self.members = queues.merged(self.members, found.members)
            self.queues.update(found.queues)

    async def _topics(self, client: Client) -> Sequence[str]:
        if not self.options.topic_pattern:
            return self.options.topics or (self.options.topic,)
        pattern = re.compile(self.options.topic_pattern)
        try:
            known = await Admin(client).topics()
        except FAILURES as exc:
            raise PlanError(f"{NAME}: the topics cannot be had: {exc}") from None
        found = [topic for topic in known if pattern.fullmatch(topic) and not is_system_topic(topic)]
        if not found and not self.queues:
            raise PlanError(f"{NAME}: no topic matches {self.options.topic_pattern!r}; topics: {', '.join(known)}")
        return found

    async def _unknown(self, client: Client, topic: str) -> str:
        try:
            known = [name for name in await Admin(client).topics() if not is_system_topic(name)]
        except FAILURES:
            known = []
        return f"there is no topic {topic}{near_miss(topic, known)} (name server {self.options.name_server})"

    # -- offsets ---------------------------------------------------------------------------------

    def ends(self) -> dict[QueueName, Bound]:
        """The ends of all known queues; one of which nobody answers is missing."""

        async def ask(client: Client) -> dict[QueueName, Bound]:
            return await queues.gather_bounds(client, sorted(self.queues), self.members, seconds=_BOUNDS_SECONDS)

        return self.link.call(ask)

    def resolve(self, position: Position, *, of: Sequence[QueueName] | None = None) -> dict[QueueName, int]:
        """Offsets of all known queues, or of some. A queue that the position does not name gives PlanError."""
        wanted = sorted(self.queues) if of is None else of
        if not isinstance(position, int):
            self._check_named(position)
        asked = {queue: position if isinstance(position, int) else position[queue] for queue in wanted}
        return self._gather({queue: (offset, None) for queue, offset in asked.items()})

    def at_time(self, millis: int) -> dict[QueueName, int]:
        """For each queue the first message stored at a time or later."""
        return self._gather(dict.fromkeys(sorted(self.queues), (0, millis)))

    def _check_named(self, position: Mapping[QueueName, int]) -> None:
        if unknown := set(position) - self.queues:
            raise PlanError(
                f"{NAME}: there is no queue {min(unknown)}; queues: {', '.join(map(str, sorted(self.queues)))}"
            )
        if missing := self.queues - set(position):
            raise PlanError(f"{NAME}: the offsets name no {min(missing)}: every queue needs one")

    def _gather(self, wanted: Mapping[QueueName, tuple[int, int | None]]) -> dict[QueueName, int]:
        found: dict[QueueName, int] = {}

        async def one(client: Client, queue: QueueName, offset: int, millis: int | None) -> None:
            members = self.members.get(queue.broker, {})
            if millis is not None:
                found[queue] = await queues.offset_at(client, queue, members, millis)
            elif offset == EARLIEST:
                found[queue] = (await queues.min_offset(client, queue, members)).offset
            elif offset == LATEST:
                found[queue] = (await queues.max_offset(client, queue, members)).offset
            else:
                found[queue] = offset

        async def all_of_them(client: Client) -> None:
            async with trio.open_nursery() as nursery:
                for queue, (offset, millis) in wanted.items():
                    nursery.start_soon(one, client, queue, offset, millis)

        try:
            self.link.call(all_of_them)
        except* (UnreachableError, *FAILURES, NoNameServerError) as group:
            raise PlanError(f"{NAME}: {group.exceptions[0]}") from None
        return found
