"""TOML texts that people write."""

import re
import tomllib
from typing import Any, Final

MOST_PARTS: Final = 200
"""Parts of a dotted key. The time of `tomllib` grows with their square: 23 minutes for a key of 1 MB."""
_DOTTED = re.compile(r"""(?:(?:[A-Za-z0-9_-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+)++""")
"""The begin of a dotted key, up to its last dot. Possessive, so that no part is read twice."""
_QUOTED = re.compile(r""""[^"\n]*+"|'[^'\n]*+'""")


def parse_toml(text: str) -> dict[str, Any]:
    """Return the values of a TOML text.

    TOMLDecodeError, ValueError for a number of thousands of digits, RecursionError for deep lists.
    """
    if text.count(".") >= MOST_PARTS:
        for found in _DOTTED.finditer(text):
            if found[0].count(".") >= MOST_PARTS and _QUOTED.sub("", found[0]).count(".") >= MOST_PARTS:
                raise tomllib.TOMLDecodeError(f"a key of more than {MOST_PARTS} parts")
    return tomllib.loads(text)
