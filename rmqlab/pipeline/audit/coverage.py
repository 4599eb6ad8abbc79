"""What brokers recorded of their own logs, and what they deleted on request.

Log files that are missing although no event removed them make a store incomplete (`rmqlab.verdict.logcover`). Topics and
consumer groups that were deleted are relations, which questions leave out.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rmqlab.pipeline.audit.relations import Relations, literal
from rmqlab.pipeline.audit.watchers import Happening, Member
from rmqlab.store.logplaces import log_directory, log_extents
from rmqlab.verdict.logcover import Life, Samples, log_trouble


def share_deletions(relations: Relations, happenings: Iterable[Happening], members: Mapping[str, Member]) -> None:
    """Register the topics and consumer groups that brokers deleted, and when."""
    for table, kind, field in (
        ("deleted_topics", "topic_deleted", "topic"),
        ("deleted_groups", "group_deleted", "group"),
    ):
        last = {
            (members[one.node].broker if one.node in members else one.node, str(one.fields[field])): one.at
            for one in happenings  # by time
            if one.kind == kind
        }
        rows = [{"broker": broker, field: name, "at": at} for (broker, name), at in sorted(last.items())]
        relations.define_rows(table, rows, **{"broker": "string", field: "string", "at": "bigint"})


def incomplete_logs(
    directory: Path, stores: Iterable[str], samples: Mapping[str, Samples], lives: Mapping[str, Life]
) -> Iterator[tuple[str, str]]:
    """Yield the nodes whose log lacks files that no event removed, and which bytes."""
    for node in sorted(stores):
        root = directory / node / "store"
        place = f"store/{log_directory(root).relative_to(root)}"
        if why := log_trouble(place, log_extents(root), samples.get(node), lives.get(node)):
            yield node, why


def sampled_ends(lives: Mapping[str, Life]) -> str:
    """Return the query of the ends of logs that brokers recorded in their last lives."""
    during = " or ".join(f"(node = {literal(node)} and at > {life.since})" for node, life in lives.items())
    return (
        "select node, min(nullif(log_end, 0)) lowest, max(log_end) highest from ("
        "select node, cast(get_json_object(fields, '$.max_offset') as bigint) log_end from raw_happenings"
        f" where kind = 'log_sampled' and ({during or 'false'})) group by node"
    )
