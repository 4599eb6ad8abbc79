"""Events received out of order are shown in order."""

import functools

from hypothesis import given
from hypothesis import strategies as st

from rmqlab.cluster.demo.timeline import Timeline


def test_the_first_event_is_shown_first_though_it_came_last() -> None:
    shown: list[str] = []
    timeline = Timeline()
    for at, text in ((20, "second"), (10, "first"), (20, "third"), (99, "later")):
        timeline.add(at, functools.partial(shown.append, text))
    timeline.show_until(9)
    assert shown == []
    timeline.show_until(20)
    assert shown == ["first", "second", "third"]
    timeline.show_all()
    assert shown[3:] == ["later"]


@given(st.lists(st.integers(0, 50)), st.lists(st.integers(0, 50)))
def test_nothing_is_lost_or_shown_twice_and_every_showing_is_in_order(times: list[int], looks: list[int]) -> None:
    shown: list[int] = []
    timeline = Timeline()
    for index, at in enumerate(times):
        timeline.add(at, functools.partial(shown.append, at))
        for look in looks[index : index + 1]:
            before = len(shown)
            timeline.show_until(look)
            assert shown[before:] == sorted(shown[before:])
    timeline.show_all()
    assert sorted(shown) == sorted(times)
