"""Rounds of requests: what ends a thread that waits for one. Without Spark."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from rmqlab.pipeline.audit.rounds import Rounds, RoundsEndedError


def _doubled(requests: Sequence[int]) -> list[int]:
    return [2 * request for request in requests]


def test_a_round_is_computed_when_all_threads_wait() -> None:
    rounds = Rounds(_doubled, 3)
    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(rounds.ask, [1, 2, 3])) == [2, 4, 6]


def test_the_end_raises_in_threads_that_wait_and_for_later_requests() -> None:
    rounds = Rounds(_doubled, 2)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(rounds.ask, 1)
        rounds.end()
        with pytest.raises(RoundsEndedError):
            waiting.result(timeout=60)
    with pytest.raises(RoundsEndedError):
        rounds.ask(2)


def test_the_thread_that_leaves_computes_the_round_of_the_others() -> None:
    rounds = Rounds(_doubled, 2)
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(rounds.ask, 1)
        rounds.leave()
        assert waiting.result(timeout=60) == 2
