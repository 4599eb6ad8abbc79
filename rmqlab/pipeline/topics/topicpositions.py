"""Computes the start and end of a read in each queue from the options. No I/O."""

from collections.abc import Collection, Mapping

from rmqlab.pipeline.options import shortened
from rmqlab.pipeline.topics.groupoffsets import Commits
from rmqlab.pipeline.topics.topicbounds import PlanError
from rmqlab.pipeline.topics.topicoffsets import EARLIEST, LATEST, AtTime, QueueName, QueuePosition, near_queue
from rmqlab.pipeline.topics.topicoptions import NAME, TopicOptions
from rmqlab.runtime.text.nearmiss import near_miss


def start_positions(
    options: TopicOptions, queues: Collection[QueueName], commits: Commits, *, unset: int
) -> dict[QueueName, QueuePosition]:
    """Return the start position of each queue; `unset` applies if no option sets it.

    Queues without a commit of option startingGroup begin where the other options say, or else at their first message,
    as do queues that JSON omits. Raises PlanError for JSON that names an unknown queue, and for a group without any
    commit unless another option says where to begin.
    """
    if not options.starting_group:
        return _stated_starts(options, queues, unset)
    if not commits.offsets and not options.has_stated_start:
        raise PlanError(_without_commits(options.starting_group, commits.groups))
    return {**_stated_starts(options, queues, EARLIEST), **commits.offsets}


def _stated_starts(options: TopicOptions, queues: Collection[QueueName], unset: int) -> dict[QueueName, QueuePosition]:
    must_exist = options.starting_time_strategy == "error"
    if options.starting_timestamp is not None:
        return dict.fromkeys(queues, AtTime(options.starting_timestamp, must_exist))
    if options.starting_times is not None:
        times = {queue: AtTime(millis, must_exist) for queue, millis in options.starting_times.items()}
        return _with_unnamed(times, queues, EARLIEST, "startingOffsetsByTimestamp")
    position = unset if options.starting_offsets is None else options.starting_offsets
    if isinstance(position, int):
        return dict.fromkeys(queues, position)
    return _with_unnamed(position, queues, EARLIEST, "startingOffsets")


def _without_commits(group: str, known: Collection[str]) -> str:
    return (
        f"{NAME}: group {group} of option startingGroup has no commit in these queues{near_miss(group, known)}; groups "
        f"with commits: {shortened(sorted(known)) or 'none'}. Set startingOffsets too, to begin there without commits"
    )


def end_positions(options: TopicOptions, queues: Collection[QueueName]) -> dict[QueueName, QueuePosition]:
    """Return the end position of each queue.

    Queues that JSON omits end at their last message. Raises PlanError for JSON that names an unknown queue.
    """
    if options.ending_timestamp is not None:
        return dict.fromkeys(queues, AtTime(options.ending_timestamp))
    if options.ending_times is not None:
        times = {queue: AtTime(millis) for queue, millis in options.ending_times.items()}
        return _with_unnamed(times, queues, LATEST, "endingOffsetsByTimestamp")
    if isinstance(options.ending_offsets, int):
        return dict.fromkeys(queues, options.ending_offsets)
    return _with_unnamed(options.ending_offsets, queues, LATEST, "endingOffsets")


def _with_unnamed(
    named: Mapping[QueueName, QueuePosition], queues: Collection[QueueName], unnamed: int, option: str
) -> dict[QueueName, QueuePosition]:
    if unknown := sorted(named.keys() - set(queues)):
        near, there = near_queue(unknown[0], queues), shortened(sorted(queues))
        raise PlanError(f"{NAME}: there is no queue {unknown[0]} to read (option {option}){near}; queues: {there}")
    return {queue: named.get(queue, unnamed) for queue in queues}
