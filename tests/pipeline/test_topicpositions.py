"""Where a read begins and ends in each queue, by the options."""

import json

import pytest

from rmqlab.pipeline.options import bind_options
from rmqlab.pipeline.topics.groupoffsets import Commits
from rmqlab.pipeline.topics.topicbounds import Bounds, PlanError
from rmqlab.pipeline.topics.topicoffsets import EARLIEST, LATEST, AtTime, QueueName, QueuePosition
from rmqlab.pipeline.topics.topicoptions import NAME, TopicOptions
from rmqlab.pipeline.topics.topicpositions import end_positions, start_positions

FIRST, SECOND, OTHER = QueueName("t", "a", 0), QueueName("t", "a", 1), QueueName("t", "b", 0)
ALL = {FIRST, SECOND, OTHER}


def bound(**options: str) -> TopicOptions:
    return bind_options(TopicOptions, {"nameServer": "h:1", **options}, source=NAME)


def of_first(number: int) -> str:
    """JSON that names the first queue only."""
    return json.dumps({"t": {"a": {"0": number}}})


@pytest.mark.parametrize(
    ("options", "first", "others"),
    [
        ({}, LATEST, LATEST),
        ({"startingOffsets": "earliest"}, EARLIEST, EARLIEST),
        ({"startingOffsets": of_first(7)}, 7, EARLIEST),
        ({"startingOffsets": of_first(LATEST)}, LATEST, EARLIEST),
        ({"startingTimestamp": "5"}, AtTime(5), AtTime(5)),
        ({"startingOffsetsByTimestamp": of_first(5)}, AtTime(5), EARLIEST),
        (
            {"startingOffsetsByTimestamp": of_first(5), "startingOffsetsByTimestampStrategy": "error"},
            AtTime(5, must_exist=True),
            EARLIEST,
        ),
    ],
)
def test_a_queue_that_is_not_named_begins_at_its_first_message(
    options: dict[str, str], first: QueuePosition, others: QueuePosition
) -> None:
    found = start_positions(bound(**options), ALL, Commits(), unset=LATEST)
    assert found == {FIRST: first, SECOND: others, OTHER: others}


@pytest.mark.parametrize(
    ("options", "first", "others"),
    [
        ({}, LATEST, LATEST),
        ({"endingOffsets": of_first(7)}, 7, LATEST),
        ({"endingTimestamp": "5"}, AtTime(5), AtTime(5)),
        ({"endingOffsetsByTimestamp": of_first(5)}, AtTime(5), LATEST),
    ],
)
def test_a_queue_that_is_not_named_ends_at_its_last_message(
    options: dict[str, str], first: QueuePosition, others: QueuePosition
) -> None:
    assert end_positions(bound(**options), ALL) == {FIRST: first, SECOND: others, OTHER: others}


@pytest.mark.parametrize(
    ("named", "said"),
    [
        (
            '{"t": {"bb": {"0": 1}}}',
            r"no queue t@bb:0 to read \(option startingOffsets\); did you mean t@b:0\?; queues",
        ),
        ('{"t": {"a": {"9": 1}}}', r"no queue t@a:9 to read \(option startingOffsets\); queues: t@a:0, t@a:1, t@b:0"),
    ],
)
def test_a_named_queue_that_is_not_read_is_refused(named: str, said: str) -> None:
    with pytest.raises(PlanError, match=said):
        start_positions(bound(startingOffsets=named), ALL, Commits(), unset=LATEST)


# ---- committed offsets -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "others"),
    [
        ({}, EARLIEST),
        ({"startingOffsets": "latest"}, LATEST),
        ({"startingTimestamp": "5"}, AtTime(5)),
    ],
)
def test_queues_without_a_commit_begin_where_the_other_options_say(
    options: dict[str, str], others: QueuePosition
) -> None:
    commits = Commits({FIRST: 7}, frozenset({"billing"}))
    found = start_positions(bound(startingGroup="billing", **options), ALL, commits, unset=LATEST)
    assert found == {FIRST: 7, SECOND: others, OTHER: others}


def test_a_group_without_any_commit_is_an_error_unless_a_beginning_is_stated() -> None:
    commits = Commits({}, frozenset({"billing", "audit"}))
    with pytest.raises(PlanError, match=r"group biling .* did you mean billing.; groups with commits: audit, billing"):
        start_positions(bound(startingGroup="biling"), ALL, commits, unset=LATEST)
    found = start_positions(bound(startingGroup="biling", startingOffsets="earliest"), ALL, commits, unset=LATEST)
    assert found == dict.fromkeys(ALL, EARLIEST)


# ---- assign ----------------------------------------------------------------------------------------------


def assigned(text: str, *, known: set[QueueName]) -> Bounds:
    """Bounds of an assignment after its topics' routes were seen."""
    return Bounds(bound(assign=text), queues=known, in_routes=set(ALL))


def test_an_assignment_that_routes_have_is_accepted() -> None:
    bounds = assigned('{"t": {"a": [0]}}', known={FIRST})
    bounds.check_assignment()
    bounds.check_begun({FIRST})
    assert bounds.absences() == []


def test_a_queue_that_its_broker_lacks_cannot_be_assigned() -> None:
    with pytest.raises(PlanError, match="there is no queue t@a:9 of option assign; queues in routes: t@a:0, t@a:1"):
        assigned('{"t": {"a": [0, 9]}}', known={FIRST}).check_assignment()


def test_a_queue_of_the_checkpoint_outside_the_assignment_is_an_error() -> None:
    with pytest.raises(PlanError, match="the checkpoint has t@a:1, which option assign does not name"):
        assigned('{"t": {"a": [0]}}', known={FIRST}).check_begun({FIRST, SECOND})


def test_a_queue_of_the_checkpoint_that_left_the_route_stays_assigned() -> None:
    gone = QueueName("t", "a", 5)
    bounds = assigned('{"t": {"a": [5]}}', known={gone})
    bounds.check_assignment()
    bounds.check_begun({gone})


@pytest.mark.parametrize(
    ("option", "value"), [("topic", "u"), ("topics", "u,v"), ("topicPattern", "tt|u"), ("topicPattern", "u.*")]
)
def test_a_checkpoint_of_another_topic_is_an_error(option: str, value: str) -> None:
    bounds = Bounds(bound(**{option: value}))
    bounds.check_begun({QueueName("u", "a", 0), QueueName("u", "gone", 7)})
    with pytest.raises(PlanError, match=f"the checkpoint has t@a:0, which option {option} does not name. Name their"):
        bounds.check_begun({QueueName("u", "a", 0), FIRST})


def test_an_assigned_broker_that_no_route_has_is_silent() -> None:
    bounds = assigned('{"t": {"a": [0], "c": [0, 1]}}', known={FIRST})
    bounds.check_assignment()
    assert [str(silence) for silence in bounds.absences()] == ["c (t@c:0, t@c:1): no route has this queue"]
