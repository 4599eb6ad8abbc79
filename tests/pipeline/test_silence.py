from rmqlab.pipeline.topics.silence import Silence, SilenceWatch, silences
from rmqlab.pipeline.topics.topicoffsets import QueueName

A = Silence("broker-a", (), "refused")
B = Silence("broker-b", (), "refused")
BOTH = ("broker-a", "broker-b")


def test_a_group_is_overdue_when_it_was_silent_all_the_time() -> None:
    watch = SilenceWatch(10)
    assert watch.overdue(BOTH, [A], 100) == []
    assert watch.overdue(BOTH, [A, B], 109) == []
    assert watch.overdue(BOTH, [A, B], 110) == [A]
    assert watch.overdue(BOTH, [A, B], 119) == [A, B]


def test_a_reply_restarts_the_wait_and_unasked_groups_keep_theirs() -> None:
    watch = SilenceWatch(10)
    watch.overdue(BOTH, [A, B], 0)
    watch.overdue(["broker-a"], [], 5)
    assert watch.overdue(BOTH, [A, B], 12) == [B]


def test_queues_are_described_by_their_broker() -> None:
    reasons = {QueueName("t", broker, number): f"{broker} down" for broker in ("b", "a") for number in (1, 0)}
    assert [str(one) for one in silences(reasons)] == ["a (t@a:0, t@a:1): a down", "b (t@b:0, t@b:1): b down"]
