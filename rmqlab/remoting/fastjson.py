"""Parser of fastjson's dialect of JSON.

Java peers write it, C++ and Go peers partly imitate it.

Extensions of JSON that it accepts (broker-requests section 0.3, remoting-and-nameserver section 1.4):

    {0:"a"}                      keys of digits or letters without quotes; parsed as text
    {{"queueId":0}:5}            an object as a key; parsed as an ObjectKey
    {'a':'b'}                    single quotes
    {"$ref":"$.list[0]"}         a reference to the value at that path

A bare key is equal to the same key in quotes, so callers need not distinguish them. pyjson5 is no alternative: it
accepts single quotes and letters as bare keys, but neither digits nor objects as keys.
"""

import contextlib
import json
import re
from typing import Any

import attrs
import msgspec

from rmqlab.remoting.queuekeys import ObjectKey, with_object_keys, with_text_keys

MAX_DEPTH = 100
"""Maximum nesting of objects and lists; the deepest body of RocketMQ has eight levels."""
MAX_REFERENCES = 1000
"""Maximum number of `$ref` members in one body."""
MAX_EXPANDED = 2**20
"""Maximum total weight of the values that the references of one body repeat, or the body's size if that is larger.

A value has weight 8, text 1 more per character. Without a limit, 1 MB of JSON with 1,000 references to half of it
expands to 284 MB of objects (issue 12.6).
"""
_INT_DIGITS = 20
"""Longer numbers become floats: a peer could choose huge integers with equal hashes, which make dicts slow."""


@attrs.frozen
class TextLimits:
    """Limits of one text.

    They bound the time of parsing, because a server's event loop waits for it.
    """

    values: int
    """Maximum number of members, items and comments."""
    size: int
    """Maximum number of bytes."""
    dialect_values: int = attrs.field(default=attrs.Factory(lambda self: self.values, takes_self=True))
    """Maximum number of values in the dialect, which takes ten times as long as JSON."""


BODY_LIMITS = TextLimits(values=200_000, size=4 * 2**20)
"""20 bytes for each value, as in an average body. Parsing takes at most 0.3 s."""
TABLE_LIMITS = TextLimits(values=2_000_000, size=32 * 2**20, dialect_values=600_000)
"""For tables of a whole broker: a frame of consumer offsets of maximum size, 16 MiB, has about as many values. In
files, indentation is added. Tables with a queue as a key are read as JSON if the keys are as brokers write them, so
that all that fit into a frame are read. Others are in the dialect, with 14 values each: 40,000 queues take 1 s."""


class FastJsonError(ValueError):
    """The text is neither JSON nor fastjson's dialect of it, or it exceeds a limit."""


def parse_fastjson(raw: bytes, limits: TextLimits = BODY_LIMITS) -> Any:
    """Parse JSON, or else the dialect.

    FastJsonError if it is neither or exceeds a limit.
    """
    if len(raw) > limits.size:
        raise FastJsonError(f"{len(raw)} bytes: more than {limits.size}")
    strict = with_text_keys(raw)
    count = sum(map(strict.count, _BEFORE_VALUES))
    if count > limits.values:
        raise FastJsonError(f"more than {limits.values} values")
    try:
        try:
            value = msgspec.json.decode(strict)
            if _is_too_deep(strict):  # msgspec stops at the interpreter's limit: 1,000 to 10,000 levels, by release
                raise RecursionError
            if strict is not raw:
                value = with_object_keys(value)
        except (msgspec.DecodeError, UnicodeDecodeError):
            if count > limits.dialect_values:
                raise FastJsonError(f"more than {limits.dialect_values} values that only fastjson reads") from None
            value = parse_dialect(raw)
        return resolve_references(value, max(MAX_EXPANDED, len(raw))) if b"$ref" in raw else value
    except RecursionError:
        raise FastJsonError("objects or lists nested too deep") from None


_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def _is_too_deep(raw: bytes) -> bool:
    """Return True for valid JSON with more than MAX_DEPTH levels."""
    if raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH:
        return False
    levels = _STRING.sub(b"", raw).translate(_SQUARE, _NO_BRACKETS)
    for _ in range(MAX_DEPTH):
        levels = levels.replace(b"[]", b"")  # the innermost level
    return bool(levels)


def parse_dialect(raw: bytes) -> Any:
    """Parse the dialect, which includes JSON, without resolving references."""
    reader = _Reader(raw.decode("utf-8", "replace"))  # Java decodes invalid UTF-8 the same way
    value = reader.value(reader.next(), MAX_DEPTH)
    if reader.at < len(reader.text.rstrip()):
        raise reader.error("the end")
    return value


_BEFORE_VALUES = (b",", b":", b"[", b"{", b"/*", b"//")
"""Text before each member, item or comment."""

_TOKEN = re.compile(
    r"""[\s\ufeff]*+
      (?:
        (?P<mark>[{}\[\]:,])
      | "(?P<double>[^"\\]*+(?:\\.[^"\\]*+)*+)"
      | '(?P<single>[^'\\]*+(?:\\.[^'\\]*+)*+)'
      | (?P<number>[+-]?[0-9]++(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+)(?![\w$])
      | (?P<name>[^\W\d][\w$]*+|\$[\w$]*+)
      | (?P<comment>/\*|//[^\n]*+)
    )""",
    re.VERBOSE | re.DOTALL,
)
# All repetitions are possessive: for others, `re` keeps up to 128 bytes for each round, 2 GB for a frame of spaces.
# (None contains a part that backtracks: Python before 3.11.5 loses matches of those, see gh-106052.)

_HEX_ESCAPE = re.compile(r"\\x(?=[0-9a-fA-F]{2})")
_NEEDLESS_BACKSLASH = re.compile(r'\\(?!["bfnrt/]|u[0-9a-fA-F]{4})')
_STRICT_STRINGS = json.JSONDecoder(strict=False)
"""Accepts control characters in strings."""
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_CONSTANTS = {"true": True, "false": False, "null": None, "NaN": None}


def _unescape(text: str) -> str:
    """Replace the escapes of a string.

    Functions in C replace all of a kind at once: a call of a Python function for each takes seconds in a frame of
    escapes.
    """
    if "\\" not in text:
        return text
    text = text.replace(r"\\", r"\u005c")  # now each backslash begins an escape
    text = _HEX_ESCAPE.sub(r"\\u00", text).replace(r"\v", r"\u000b").replace(r"\0", r"\u0000")
    text = _NEEDLESS_BACKSLASH.sub("", text)
    text = text.replace(r"\"", '"').replace('"', r"\"")  # single quotes may enclose double ones
    plain: str = _STRICT_STRINGS.decode(f'"{text}"')  # two \u escapes can be a surrogate pair
    return _LONE_SURROGATE.sub("\N{REPLACEMENT CHARACTER}", plain)


@attrs.define
class _Reader:
    """A recursive descent parser of one text."""

    text: str
    at: int = 0

    def next(self) -> re.Match[str]:
        while True:
            token = _TOKEN.match(self.text, self.at)
            if token is None:
                raise self.error("a value")
            self.at = token.end()
            if token.lastgroup != "comment":
                return token
            if token["comment"] == "/*":
                self.at = self.text.find("*/", self.at) + 2
                if self.at < 2:
                    raise FastJsonError("a comment without end")

    def error(self, wanted: str) -> FastJsonError:
        return FastJsonError(f"{wanted} expected at character {self.at}: {self.text[self.at : self.at + 20]!r}")

    def value(self, token: re.Match[str], depth: int) -> Any:
        if depth == 0:
            raise FastJsonError("objects or lists nested too deep")
        match token.lastgroup:
            case "mark" if token["mark"] == "{":
                return self.object(depth)
            case "mark" if token["mark"] == "[":
                return self.list(depth)
            case "double" | "single" as quotes:
                return _unescape(token[quotes])
            case "number" if (number := _number(token["number"])) is not None:
                return number
            case "name" if token["name"] in _CONSTANTS:
                return _CONSTANTS[token["name"]]
        self.at = token.start()
        raise self.error("a value")

    def object(self, depth: int) -> dict[Any, Any]:
        members: dict[Any, Any] = {}
        token = self.next()
        if token["mark"] == "}":
            return members
        while True:
            key = self.key(token, depth)
            if self.next()["mark"] != ":":
                raise self.error("a colon before this")
            members[key] = self.value(self.next(), depth - 1)
            if self.ends_with("}"):
                return members
            token = self.next()

    def key(self, token: re.Match[str], depth: int) -> Any:
        if token.lastgroup in {"number", "name"}:
            return token[token.lastgroup]
        key = self.value(token, depth - 1)
        if isinstance(key, dict):
            key = ObjectKey(key)
        try:
            hash(key)
        except TypeError:
            raise self.error("a key of plain values before this") from None
        return key

    def list(self, depth: int) -> list[Any]:
        items: list[Any] = []
        token = self.next()
        if token["mark"] == "]":
            return items
        while True:
            items.append(self.value(token, depth - 1))
            if self.ends_with("]"):
                return items
            token = self.next()

    def ends_with(self, closing: str) -> bool:
        """Skip one or more commas.

        Return True at the closing mark, with or without commas before it.
        """
        mark = self.next()["mark"]
        if mark not in {",", closing}:
            raise self.error(f"a comma or {closing} before this")
        while mark == ",":
            at = self.at
            mark = self.next()["mark"]
        if mark == closing:
            return True
        self.at = at  # the next member
        return False


def _number(text: str) -> int | float | None:
    for kind in (int, float) if len(text.lstrip("-")) <= _INT_DIGITS else (float,):  # int() rejects fractions
        with contextlib.suppress(ValueError):
            return kind(text)
    return None  # `0e`


_STEP = re.compile(r"\.((?:\\+.|[^.\[\\])++)|\[([0-9]++)\]", re.DOTALL)
_ESCAPING = re.compile(r"\\+(?=.)")


def resolve_references(root: Any, max_expanded: int = MAX_EXPANDED) -> Any:
    """Replace each `$ref` by the value at its path.

    FastJsonError if that exceeds a limit.

    fastjson writes a reference for an object that it has already written. Only such repetitions are accepted: a
    reference to an enclosing value would be infinite, and references to values with references can grow exponentially.
    The value is shared between all its places, not copied.
    """
    return _Resolver(root, max_expanded).resolved(root)


@attrs.define
class _Resolver:
    """Resolves the references in one value, within limits of number and weight."""

    root: Any
    weight_left: int
    references_left: int = MAX_REFERENCES
    _weights: dict[int, int] = attrs.field(factory=dict)
    """Weights of referenced values, by id() of the value; these values contain no references."""

    def resolved(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.resolved(item) for item in value]
        if not isinstance(value, dict):
            return value
        if isinstance(path := value.get("$ref"), str):
            return self._named(path)
        return {key: self.resolved(item) for key, item in value.items()}

    def _named(self, path: str) -> Any:
        self.references_left -= 1
        if self.references_left < 0:
            raise FastJsonError(f"more than {MAX_REFERENCES} references")
        value = _value_at(self.root, path)
        weight = self._weights.get(id(value))
        if weight is None:  # stops early in a value that is heavier than weight_left
            weight = self._weights[id(value)] = self.weight_left - _left_after(value, self.weight_left, path)
        self.weight_left -= weight
        if self.weight_left < 0:
            raise _too_heavy()
        return value


def _left_after(value: Any, left: int, path: str) -> int:
    """Return `left` minus the weight of a value.

    FastJsonError below 0 or if the value has references.
    """
    left -= 8 + (len(value) if isinstance(value, str) else 0)
    if left < 0:
        raise _too_heavy()
    if isinstance(value, dict):
        if "$ref" in value:
            raise FastJsonError(f"the value at {path[:80]!r} contains references")
        for key, item in value.items():
            left = _left_after(item, left - len(key), path)
    elif isinstance(value, list):
        for item in value:
            left = _left_after(item, left, path)
    return left


def _too_heavy() -> FastJsonError:
    return FastJsonError("references repeat too much")


def _value_at(root: Any, path: str) -> Any:
    value, at = root, 1
    while at < len(path):
        step = _STEP.match(path, at)
        try:
            if step is None or path[0] != "$":
                raise KeyError(path)
            name = _ESCAPING.sub("", step[1]) if step[1] else step[2]
            value = value[int(name)] if isinstance(value, list) else value[name]
        except (LookupError, TypeError, ValueError):
            raise FastJsonError(f"reference to {path[:80]!r}, where there is no value") from None
        at = step.end()
    return value
