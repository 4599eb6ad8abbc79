"""A run that is being audited: its facts as relations, and facts about its nodes."""

import itertools
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import attrs
from pyspark.sql import Row

from rmqlab.pipeline.audit.previews import Groups, Preview, join_groups
from rmqlab.pipeline.audit.relations import Query, Relations
from rmqlab.pipeline.audit.rounds import Rounds
from rmqlab.pipeline.audit.sources import SavedOffsets
from rmqlab.pipeline.audit.watchers import ClusterEvent, Member
from rmqlab.pipeline.tables.audittables import TABLES
from rmqlab.store.log.loglayout import log_begin
from rmqlab.verdict.conditions import Conditions
from rmqlab.verdict.logcover import LogState
from rmqlab.verdict.roles import Roles

_COLUMNS = {table.name: {column.name: column.type for column in table.columns} for table in TABLES}


@attrs.frozen(kw_only=True)
class Run:
    """A run: its facts as tables of this Spark session, and the facts about nodes."""

    relations: Relations
    directory: Path
    cluster_events: tuple[ClusterEvent, ...]
    """Events about the presence of nodes and the beliefs of watchers, in order."""
    members: Mapping[str, Member]
    roles: Roles
    stores: tuple[str, ...]
    """Nodes whose store was read, or was wiped."""
    wiped: tuple[str, ...]
    """The nodes of `stores` without a store now."""
    strays: frozenset[str] = frozenset()
    """Directories with a store of no process of the run."""
    unread: Mapping[str, str]
    """Brokers whose store is missing, or lacks files of its log, with the reason."""
    incomplete: Mapping[str, str]
    """The part of `unread` that lacks files, or has files of others: what is left of these stores was read."""
    log_states: Mapping[str, LogState]
    """What is wrong with the files of each log."""
    offsets: SavedOffsets
    latest_stored: Mapping[str, int | None]
    """Highest store time of the records of each log, in ms; None without records."""
    stopped: Mapping[str, int]
    """Times at which nodes shut down cleanly with the whole cluster; these events are not in `cluster_events`."""
    began_at: int
    ended_at: int
    conditions: Conditions
    """The run's role and profile, and the gaps in its journals."""
    event_times: tuple[Row, ...]
    """First and last event of each node and kind; see `_EVENT_TIMES`."""
    longest_queues: Mapping[str, int]
    """Rows of the longest queue in `copies` and in `deliveries`; empty unless the run is large."""
    rounds: Rounds[Sequence[Query], list[Sequence[Row]]] | None = None
    """Joins the batches of concurrent questions; None: each batch is executed at once."""

    def log_begin(self, node: str) -> int:
        """Return the commit log offset at which the first file of a store's log begins."""
        return log_begin(self.directory / node / "store")

    def batch(self, *queries: Query) -> list[Sequence[Row]]:
        """Return the rows of each query, executed together; see `Relations.execute`."""
        return self.rounds.ask(queries) if self.rounds else self.relations.execute(queries)

    def table(self, name: str, text: str, *, is_bounded: bool = False, is_rare: bool = False) -> Sequence[Row]:
        """Write a table as parquet, and define it as a relation.

        Returns its rows if they are bounded.
        """
        (rows,) = self.batch(written(name, text, is_bounded=is_bounded, is_rare=is_rare))
        return rows

    def write_rare(self, *tables: "Rare", beside: Sequence[Query] = ()) -> list[Sequence[Row]]:
        """Write tables of violations, and return the rows of `beside`.

        The first batch has the suspicions and the queries of `beside`, the second the tables that may have rows.
        """
        found = self.batch(*(Query(f"select 1 from ({one.suspicion}) limit 1") for one in tables), *beside)
        suspected = [one for one, rows in zip(tables, found, strict=False) if rows]
        for one in tables:
            if one not in suspected:
                self.write_empty(one.name)
        if suspected:
            self.batch(*(written(one.name, one.text, is_rare=True) for one in suspected))
        return [*found[len(tables) :]]

    def write_empty(self, name: str) -> None:
        """Write a table without rows, and define it as a relation."""
        self.relations.write_empty(name, _COLUMNS[name])

    def rows(self, text: str) -> Sequence[Row]:
        """Return a few rows as Python objects: for summaries only."""
        (rows,) = self.batch(Query(text))
        return rows

    def previews(self, *previews: Preview) -> list[Groups]:
        """Return the groups of each preview.

        Without Spark if this process holds their tables.
        """
        held = self.relations.held
        asked = [preview for preview in previews if preview.table not in held]
        queries = [Query(text) for preview in asked for text in preview.queries]
        rows = iter(self.batch(*queries) if queries else ())
        found = {preview: join_groups(*itertools.islice(rows, len(preview.queries))) for preview in asked}
        return [found[preview] if preview in found else preview.of_table(held[preview.table]) for preview in previews]

    @property
    def unread_brokers(self) -> frozenset[str]:
        """All broker names of nodes with a log that was not read, or that lacks files."""
        return frozenset[str]().union(*map(self.roles.names_of, self.unread))

    @property
    def misplaced(self) -> frozenset[str]:
        """Return the nodes whose logs have files of other brokers or runs."""
        return frozenset(node for node, state in self.log_states.items() if state.is_misplaced)

    def broker_of(self, node: str) -> str:
        """Return the broker name of a node; its own name if it never became ready."""
        member = self.members.get(node)
        return member.broker if member and member.broker else node

    def unread_of(self, brokers: Collection[str] | None) -> list[str]:
        """Return why messages of these broker names, or of any with None, are uncertain.

        Empty if they are not.
        """
        return [
            f"{node}: {why}"
            for node, why in self.unread.items()
            if brokers is None or not self.roles.names_of(node).isdisjoint(brokers)
        ]


@attrs.frozen(kw_only=True)
class Rare:
    """A table with a row for each violation, so usually empty."""

    name: str
    text: str
    suspicion: str
    """A query that costs less, and has a row if the table has one."""


def written(name: str, text: str, *, is_bounded: bool = False, is_rare: bool = False) -> Query:
    """Return the query of a table that is written as parquet."""
    return Query(text, name, is_written=True, is_bounded=is_bounded, is_rare=is_rare)
