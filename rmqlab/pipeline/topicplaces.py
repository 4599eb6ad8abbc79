"""Where a read begins and ends in each queue, as the options say. No I/O."""

from collections.abc import Collection, Mapping

from rmqlab.pipeline.options import shortened
from rmqlab.pipeline.topicbounds import PlanError
from rmqlab.pipeline.topicoffsets import EARLIEST, LATEST, AtTime, Place, QueueName, near_queue
from rmqlab.pipeline.topicoptions import NAME, TopicOptions


def start_places(options: TopicOptions, queues: Collection[QueueName], *, unset: int) -> dict[QueueName, Place]:
    """Return where to begin each queue; `unset` applies if no option says it.

    Queues that JSON omits begin at their first message. Raises PlanError for JSON that names an unknown queue.
    """
    if options.starting_timestamp is not None:
        return dict.fromkeys(queues, AtTime(options.starting_timestamp))
    position = unset if options.starting_offsets is None else options.starting_offsets
    if isinstance(position, int):
        return dict.fromkeys(queues, position)
    return _with_unnamed(position, queues, EARLIEST, "startingOffsets")


def end_places(options: TopicOptions, queues: Collection[QueueName]) -> dict[QueueName, Place]:
    """Return where to end each queue.

    Queues that JSON omits end at their last message. Raises PlanError for JSON that names an unknown queue.
    """
    if options.ending_timestamp is not None:
        return dict.fromkeys(queues, AtTime(options.ending_timestamp))
    if isinstance(options.ending_offsets, int):
        return dict.fromkeys(queues, options.ending_offsets)
    return _with_unnamed(options.ending_offsets, queues, LATEST, "endingOffsets")


def _with_unnamed(
    named: Mapping[QueueName, Place], queues: Collection[QueueName], unnamed: int, option: str
) -> dict[QueueName, Place]:
    if unknown := sorted(named.keys() - set(queues)):
        near, there = near_queue(unknown[0], queues), shortened(sorted(queues))
        raise PlanError(f"{NAME}: there is no queue {unknown[0]} to read (option {option}){near}; queues: {there}")
    return {queue: named.get(queue, unnamed) for queue in queues}
