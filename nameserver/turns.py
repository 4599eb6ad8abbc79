"""The order in which registrations of one broker name are served."""

import contextlib
from collections.abc import Callable, Iterator

import attrs


@attrs.define(eq=False)
class Turns:
    """Serves those of one name in order of arrival, as 4.9 does under its lock.

    The first slice of a request runs when it arrives, and the next ones once all earlier requests are served (see
    Slices). So a request has to line up in its first unit: behind one that arrived later, it would wait for ever.
    """

    _lines: dict[str, list[object]] = attrs.field(factory=dict, init=False)
    """By broker name. The first one has its turn."""

    @contextlib.contextmanager
    def line_up(self, name: str) -> Iterator[Callable[[], bool]]:
        """Line up; yields a function that returns True at its turn.

        The turn ends with the block.
        """
        ticket, line = object(), self._lines.setdefault(name, [])
        line.append(ticket)
        try:
            yield lambda: line[0] is ticket
        finally:
            line.remove(ticket)
            if not line:
                del self._lines[name]
