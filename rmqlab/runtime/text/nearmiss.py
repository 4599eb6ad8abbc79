"""Suggests the known names that are similar to a misspelt one."""

import difflib
from collections.abc import Iterable
from typing import Final

LONGEST_WORD: Final = 200
"""Characters of a word that is compared with known names: the time is quadratic."""


def near_miss(word: str, known: Iterable[str], most: int = 1) -> str:
    """Return `; did you mean x or y?`, or an empty text without a similar name.

    Names at most `most` known names. Ignores case.
    """
    if len(word) > LONGEST_WORD:
        return ""
    by_folded = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_folded, most)
    return f"; did you mean {' or '.join(by_folded[name] for name in near)}?" if near else ""
