"""One HTML file that needs no network.

It is for light and dark mode, small screens and print.
"""

from html import escape
from pathlib import Path

import attrs

_STYLE = Path(__file__).with_name("style.css")
_SCRIPT = Path(__file__).with_name("cursor.js")


@attrs.frozen
class Figure:
    """A drawing with its texts."""

    title: str
    text: str
    svg: str
    legend: tuple[tuple[str, str], ...] = ()
    """CSS class and label."""
    anchor: str = ""


def render_figure(figure: Figure) -> str:
    """Return a section of a page."""
    legend = "".join(f'<span><i class="{kind}"></i>{escape(word)}</span>' for kind, word in figure.legend)
    anchor = f' id="{figure.anchor}"' if figure.anchor else ""
    return (
        f'<section class="figure"{anchor}><h2>{escape(figure.title)}</h2><p class="sub">{escape(figure.text)}</p>'
        f'<div class="scroll">{figure.svg}</div><p class="legend">{legend}</p></section>'
    )


def render_document(title: str, main: str) -> str:
    """Return a page. `main` is HTML; its charts share one cursor."""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{_STYLE.read_text()}</style></head><body><main>{main}</main>"
        f"<script>{_SCRIPT.read_text()}</script></body></html>\n"
    )
