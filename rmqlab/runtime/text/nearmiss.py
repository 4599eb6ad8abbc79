"""Suggests a known name for a misspelt one."""

import difflib
from collections.abc import Collection


def near_miss(word: str, known: Collection[str]) -> str:
    """Return `, did you mean X?`, or an empty text without a similar name.

    Ignores case.
    """
    by_folded = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), by_folded, n=1)
    return f", did you mean {by_folded[near[0]]}?" if near else ""
