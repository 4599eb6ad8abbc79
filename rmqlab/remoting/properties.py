"""Java's `key=value` text: configuration files, and the bodies of requests 25, 26, 318 and 319.

Reading follows java.util.Properties. Bodies are written as RocketMQ does, which escapes nothing
(MixAll.properties2String); files with java.util.Properties' escapes, so that they are read back as they were.
"""

import re
from collections.abc import Iterator, Mapping

_BREAK = re.compile(r"\r\n|\r|\n")
_KEY = re.compile(r"(?:[^\\=: \t\f]|\\.)*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*+[=:]?+[ \t\f]*+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_WRITTEN = str.maketrans({"\\": "\\\\", **{char: f"\\{letter}" for letter, char in _ESCAPED.items()}})
_WRITTEN_IN_KEY = _WRITTEN | str.maketrans({char: f"\\{char}" for char in " =:#!"})
_SURROGATES = re.compile("[\ud800-\udfff]")


def parse_properties_text(text: str) -> dict[str, str]:
    """Read `key=value` lines: comments, continued lines and escapes as in Java. The last of a key wins."""
    pairs = {}
    for line in _logical_lines(text):
        end = _end(_KEY, line, 0)
        pairs[_unescape(line[:end])] = _unescape(line[_end(_SEPARATOR, line, end) :])
    return pairs


def write_properties_text(pairs: Mapping[str, str]) -> str:
    """Write one `key=value` line each, as the body of a request or a reply."""
    return "".join(f"{key}={value}\n" for key, value in pairs.items())


def properties_file_text(pairs: Mapping[str, str]) -> str:
    """Write one line each such that `parse_properties_text` gives the same pairs, whatever characters they have.

    RocketMQ's own file writer escapes nothing: there a backslash at the end of a value swallows the next line.
    """
    return "".join(f"{key.translate(_WRITTEN_IN_KEY)}={_file_value(value)}\n" for key, value in pairs.items())


def _file_value(value: str) -> str:
    text = value.translate(_WRITTEN)
    return f"\\{text}" if text.startswith(" ") else text


def _logical_lines(text: str) -> Iterator[str]:
    kept = ""
    for line in _BREAK.split(text):
        line = line.lstrip(" \t\f")  # noqa: PLW2901  # of a continued line too
        if not kept and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            kept += line[:-1]
            continue
        yield kept + line
        kept = ""
    if kept:
        yield kept


def _end(pattern: re.Pattern[str], line: str, at: int) -> int:
    match = pattern.match(line, at)
    return match.end() if match else at


def _unescape(text: str) -> str:
    """Replace escapes. Two `\\u` may be the halves of one character; a half alone cannot be written as UTF-8."""
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPED.get(match[2], match[2]), text)
    if not _SURROGATES.search(plain):
        return plain
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
