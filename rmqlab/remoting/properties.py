"""Java properties: configuration files, bodies of requests 25, 26, 318, 319.

The parser follows java.util.Properties. Bodies are written without escapes, as RocketMQ does
(MixAll.properties2String); files are written with the escapes of java.util.Properties, so that they round-trip.
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
    """Parse `key=value` lines with Java's comments, continuation lines and escapes.

    Last key wins.
    """
    pairs = {}
    for line in _logical_lines(text):
        end = _end(_KEY, line, 0)
        pairs[_unescape(line[:end])] = _unescape(line[_end(_SEPARATOR, line, end) :])
    return pairs


def write_properties_text(pairs: Mapping[str, str]) -> str:
    """Return one `key=value` line per pair, without escapes.

    For the body of a request or reply.
    """
    return "".join(f"{key}={value}\n" for key, value in pairs.items())


def properties_file_text(pairs: Mapping[str, str]) -> str:
    """Return one escaped line per pair.

    `parse_properties_text` returns the same pairs. RocketMQ's own writer does not escape: there a backslash at the end
    of a value joins the next line to it.
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
    """Return a text with its escapes replaced.

    Two Unicode escapes can be a surrogate pair; lone surrogates, invalid in UTF-8, are replaced.
    """
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else _ESCAPED.get(match[2], match[2]), text)
    if not _SURROGATES.search(plain):
        return plain
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
