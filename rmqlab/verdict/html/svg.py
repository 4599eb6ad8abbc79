"""Draw plots as SVG text: a frame with a time axis, and marks.

Colours are CSS classes, for dark mode. Without a library: the page has some thousand marks and must work offline; a
plotting library would add 5 MB to it.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape

import attrs

from rmqlab.runtime.text.number_text import plain

WIDTH = 1000
LEFT, RIGHT, TOP, BOTTOM = 196, 16, 8, 30
_LETTER = 7
"""Width of a letter of a note."""
_LONGEST_LABEL = (LEFT - 8) // _LETTER
"""Letters of a name that fit left of the frame; longer names are squeezed."""
_STEPS = (1, 2, 5)


@attrs.frozen
class Axis:
    """Converts values to pixels."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def at(self, value: float) -> float:
        if self.is_log:
            value, low, high = (math.log10(max(one, 0.5)) for one in (value, self.low, self.high))
        else:
            low, high = self.low, self.high
        share = (value - low) / (high - low) if high > low else 0.0
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)


def ticks(low: float, high: float, wanted: int = 6) -> list[float]:
    """Return round values that divide a range into about this many parts."""
    if high <= low:
        return [low]
    rough = (high - low) / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    step = next((power * one for one in (*_STEPS, 10) if power * one >= rough), power * 10)
    first = math.ceil(low / step)
    return [round(step * index, 10) for index in range(first, int(high / step) + 1)]


def log_ticks(high: float) -> list[float]:
    """Return powers of ten from 1 on."""
    return [10.0**power for power in range(math.ceil(math.log10(max(high, 10))) + 1)]


def short(value: float, unit: str = "") -> str:
    """Format a number for an axis: 1.5k, 20M; with a unit, 1.5 kB."""
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= size:
            return f"{plain(value / size, 3)}{' ' * bool(unit)}{prefix}{unit}"
    return f"{plain(value, 3)}{' ' * bool(unit)}{unit}"


def short_millis(value: float) -> str:
    """Format milliseconds for an axis: 10 ms, 2 s."""
    return f"{plain(value, 3)} ms" if value < 1000 else f"{plain(value / 1000, 3)} s"


@attrs.define
class Plot:
    """One drawing. x is seconds since the start of the run."""

    title: str
    seconds: float
    height: float
    left: int = LEFT
    """Width left of the frame: by default enough for the names of rows."""
    marks: list[str] = attrs.field(factory=list)

    @property
    def x(self) -> Axis:
        return Axis(0.0, max(self.seconds, 0.001), self.left, WIDTH - RIGHT)

    @property
    def floor(self) -> float:
        return self.height - BOTTOM

    def y(self, high: float, *, is_log: bool = False, text: Callable[[float], str] = short) -> Axis:
        """Draw the grid of a value axis, and return the axis.

        It has 0 (or 1 if logarithmic) at the floor, and `high` at the top. `text` formats its values.
        """
        axis = Axis(1.0 if is_log else 0.0, max(high, 10.0 if is_log else 1e-9), self.floor, TOP, is_log)
        for tick in log_ticks(high) if is_log else ticks(0, high, 4):
            if tick <= axis.high:
                at = axis.at(tick)
                self.marks.append(
                    f'<line class="grid" x1="{self.left}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>'
                )
                self.marks.append(
                    f'<text class="tick" x="{self.left - 6}" y="{at + 4:.1f}" text-anchor="end">{text(tick)}</text>'
                )
        return axis

    def bar(self, start: float, end: float, top: float, height: float, kind: str, text: str = "") -> None:
        """Draw a rectangle over a time; at least 1.5 pixels wide."""
        left, right = self.x.at(start), self.x.at(end)
        title = f"<title>{escape(text)}</title>" if text else ""
        self.marks.append(
            f'<rect class="{kind}" x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 1.5):.1f}"'
            f' height="{max(height, 0):.1f}">{title}</rect>'
        )

    def line(
        self,
        points: Iterable[tuple[float, float]],
        axis: Axis,
        kind: str,
        *,
        is_step: bool = False,
        widest: float = math.inf,
    ) -> None:
        """Connect points, except those more than `widest` seconds apart."""
        path: list[str] = []
        last_at = last_y = 0.0
        for at, value in points:
            x, y = self.x.at(at), axis.at(value)
            is_new = not path or at - last_at > widest
            if is_step and not is_new:
                path.append(f"L{x:.1f} {last_y:.1f}")
            path.append(f"{'M' if is_new else 'L'}{x:.1f} {y:.1f}")
            last_at, last_y = at, y
        if path:
            self.marks.append(f'<path class="line {kind}" d="{"".join(path)}"/>')

    def dot(self, at: float, y: float, kind: str, text: str) -> None:
        self.marks.append(
            f'<circle class="{kind}" cx="{self.x.at(at):.1f}" cy="{y:.1f}" r="4"><title>{escape(text)}</title></circle>'
        )

    def rule(self, at: float, kind: str, text: str = "") -> None:
        """Draw a vertical line at an instant."""
        x = self.x.at(at)
        title = f"<title>{escape(text)}</title>" if text else ""
        self.marks.append(
            f'<line class="{kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{self.floor:.1f}">{title}</line>'
        )

    def shade(self, start: float, end: float, text: str) -> None:
        """Shade the whole height over a time, below all other marks."""
        left, right = self.x.at(start), self.x.at(end)
        self.marks.insert(
            0,
            f'<rect class="shade" x="{left:.1f}" y="{TOP}" width="{max(right - left, 1.5):.1f}"'
            f' height="{self.floor - TOP:.1f}"><title>{escape(text)}</title></rect>',
        )

    def label(self, text: str, y: float, kind: str = "name") -> None:
        """Draw a name left of the frame. The middle of a very long one is left out."""
        if len(text) > 2 * _LONGEST_LABEL:
            text = f"{text[: _LONGEST_LABEL - 1]}…{text[-_LONGEST_LABEL:]}"
        fit = f' textLength="{LEFT - 12}" lengthAdjust="spacingAndGlyphs"' * (len(text) > _LONGEST_LABEL)
        self.marks.append(
            f'<text class="{kind}" x="{LEFT - 8}" y="{y:.1f}" text-anchor="end"{fit}>{escape(text)}</text>'
        )

    def note(self, at: float, y: float, text: str, kind: str = "note", *, until: float | None = None) -> None:
        """Draw a word inside the frame.

        `until` is the end of its bar, which has to be long enough: otherwise nothing is drawn.
        """
        width = _LETTER * len(text)
        if until is None or self.x.at(until) - self.x.at(at) >= width:
            x = min(self.x.at(at), WIDTH - RIGHT - width)
            self.marks.append(f'<text class="{kind}" x="{x + 3:.1f}" y="{y:.1f}">{escape(text)}</text>')

    def text(self) -> str:
        """Return the whole drawing."""
        axis = "".join(
            f'<line class="grid" x1="{self.x.at(tick):.1f}" x2="{self.x.at(tick):.1f}"'
            f' y1="{TOP}" y2="{self.floor:.1f}"/>'
            f'<text class="tick" x="{self.x.at(tick):.1f}" y="{self.floor + 20:.1f}"'
            f' text-anchor="middle">{plain(tick)} s</text>'
            for tick in ticks(0, self.seconds, 10)
        )
        return (
            f'<svg class="plot" viewBox="0 0 {WIDTH} {self.height:.0f}" role="img" aria-label="{escape(self.title)}"'
            f' data-left="{self.left}" data-right="{WIDTH - RIGHT}" data-seconds="{self.seconds:.3f}">'
            f"{axis}{''.join(self.marks)}</svg>"
        )


def stacked(plot: Plot, bins: Sequence[tuple[float, Sequence[float]]], kinds: Sequence[str], width: float) -> None:
    """Draw stacked bars of several kinds, each of the given seconds wide."""
    axis = plot.y(max((sum(values) for _, values in bins), default=1.0))
    for at, values in bins:
        below = 0.0
        for value, kind in zip(values, kinds, strict=True):
            if value:
                top, bottom = axis.at(below + value), axis.at(below)
                plot.bar(at, at + width, top, bottom - top, kind)
                below += value


def since(began_at: int) -> Callable[[int], float]:
    """Return a function from cluster-clock milliseconds to seconds of the run."""
    return lambda millis: (millis - began_at) / 1000
