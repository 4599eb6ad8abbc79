"""The colours and labels of the HTML pages."""

import itertools
import re
from pathlib import Path

import pytest

from rmqlab.verdict import html
from rmqlab.verdict.html.svg import Plot, short, short_millis
from rmqlab.verdict.outcomes import OUTCOMES

STYLE = (Path(html.__file__).parent / "style.css").read_text()
LEAST = 30
"""Least distance of two colours in CIELAB: 2 is just noticeable, and projectors take away much of it."""


def palettes() -> dict[str, dict[str, str]]:
    """Return the colours by variable: of light pages, dark ones and paper."""
    blocks = re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)
    colours = [dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in blocks]
    return dict(zip(("light", "dark", "print"), colours, strict=True))


def lab(colour: str) -> tuple[float, float, float]:
    """Convert sRGB to CIELAB, white point D65."""
    red, green, blue = (
        value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4
        for value in (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    )
    x, y, z = (
        value ** (1 / 3) if value > 0.008856 else 7.787 * value + 16 / 116
        for value in (
            (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047,
            0.2126 * red + 0.7152 * green + 0.0722 * blue,
            (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883,
        )
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("page", ["light", "dark", "print"])
def test_outcomes_have_colours_that_a_projector_keeps_apart(page: str) -> None:
    variables = dict(re.findall(r"\.outcome-(\w+) \{ fill: var\(--(\w+)\)", STYLE))
    assert variables.keys() == set(OUTCOMES)
    colours = {outcome: lab(palettes()[page][name]) for outcome, name in variables.items()}
    for one, other in itertools.combinations(colours, 2):
        distance = sum((a - b) ** 2 for a, b in zip(colours[one], colours[other], strict=True)) ** 0.5
        assert distance >= LEAST, (one, other, distance)


def test_values_of_an_axis_have_units() -> None:
    assert [short(value, "B") for value in (0, 999, 2390, 20_000_000)] == ["0 B", "999 B", "2.39 kB", "20 MB"]
    assert [short_millis(value) for value in (1, 100, 1000, 100_000)] == ["1 ms", "100 ms", "1 s", "100 s"]


@pytest.mark.parametrize("letters", [5, 26, 27, 52, 53, 250])
def test_no_name_begins_left_of_the_drawing(letters: int) -> None:
    plot = Plot("names", 10, 40)
    plot.label("n" * letters, 15)
    (mark,) = plot.marks
    assert ("textLength" in mark) == (letters > 26)
    (text,) = re.findall(r">(n[n…]*)<", mark)
    assert len(text) == min(letters, 52)


def test_a_small_screen_shows_that_charts_scroll() -> None:
    """A background of the drawing would cover the shadow at the edge."""
    wide, _, narrow = STYLE.partition("@media (max-width: 640px) {")
    assert "var(--edge), transparent) right / 16px 100% no-repeat scroll" in wide
    assert re.search(r"svg\.plot \{ min-width: \d+px; background: none;", narrow)
    assert 'content: " The chart is wider than this screen: scroll it sideways."' in narrow
    assert len(re.findall(r"--edge: ", STYLE)) == len(palettes())
