"""Values as RocketMQ's filter compares them, with Java's types.

Text is converted to the type of the other side. A property is text or missing. A constant is text, `int` (Java's
Integer), `Long`, `float` (Double), or `bool`; None is unknown. Class ComparisonExpression.
"""

import math
import re

Value = None | str | bool | int | float

_INT = (-(2**31), 2**31 - 1)
_LONG = (-(2**63), 2**63 - 1)
_WHOLE = re.compile(r"([+-]?)0*+(\d*+)(?<=\d)")
_DECIMAL = re.compile(
    r"[+-]?(?:(?P<word>NaN|Infinity)"
    r"|(?P<hex>0[xX](?:[0-9a-fA-F]++\.?|[0-9a-fA-F]*+\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[fFdD]?"
    r"|(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?[fFdD]?)"
)  # digits are possessive: a text of 32767 of them and a letter is not tried in every division
MAX_DIGITS = 1000
"""Digits of a whole number behind leading zeros. No more than 19 fit; Python reads up to 4300."""
_JAVA_BLANKS = "".join(map(chr, range(33)))


class EvaluationError(Exception):
    """A comparison for which Java throws: the whole expression does not match."""


class Long(int):
    """A whole number of 64 bits; a plain int has 32."""


def whole_number(value: int) -> int:
    """Convert a number to the type that Java's parser returns."""
    return int(value) if _INT[0] <= value <= _INT[1] else Long(value)


def compare(left: Value, right: Value) -> int:
    """Order two values that are both known: below 0, 0, above 0.

    Values that cannot be compared: -1.
    """
    if type(left) is not type(right):
        if isinstance(left, str):
            left = _text_as(left, right)
        elif isinstance(left, bool):
            if isinstance(right, str):
                raise EvaluationError("Java casts a Boolean to String here, and fails")
            return -1
        elif isinstance(right, str):
            right = _text_as(right, left)
        elif isinstance(right, bool):
            return -1
        elif isinstance(left, float) or isinstance(right, float):
            left, right = float(left or 0), float(right or 0)
    return _order(left, right)


def is_equal(left: Value, right: Value) -> bool | None:
    """Compare for equality.

    Two unknowns are equal. If only the left one is unknown, the result is unknown; if only the right one is, False.
    """
    if left is None or right is None:
        return left is right if (left is None) == (right is None) else (None if left is None else False)
    return compare(left, right) == 0


def compare_by_size(left: Value, right: Value) -> int | None:
    """Order two values for `<` and its like: two texts as numbers.

    None if one is unknown.
    """
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        return _order(java_double(left), java_double(right))
    return compare(left, right)


def negated(value: Value) -> Value:
    """Return the negated number; unknown for other values."""
    if value is None or isinstance(value, (str, bool)):
        return None
    return Long(-value) if isinstance(value, Long) else -value


def _order(left: Value, right: Value) -> int:
    if isinstance(left, float) and isinstance(right, float):
        return _order_doubles(left, right)
    return (left > right) - (left < right)  # type: ignore[operator]  # of one type here


def _order_doubles(left: float, right: float) -> int:
    """Return the order of two doubles as Double.compare does.

    NaN is above all and equal to itself, -0.0 is below 0.0.
    """
    if math.isnan(left) or math.isnan(right):
        return math.isnan(left) - math.isnan(right)
    if left == right == 0:
        return int(math.copysign(1, left) - math.copysign(1, right))
    return (left > right) - (left < right)


def _text_as(text: str, other: Value) -> Value:
    """Convert text to the type of another value. EvaluationError if it does not parse."""
    if isinstance(other, bool):
        return text.lower() == "true"
    if isinstance(other, float):
        return java_double(text)
    lowest, highest = _LONG if isinstance(other, Long) else _INT
    match = _WHOLE.fullmatch(text)
    if match is None or len(match[2]) > MAX_DIGITS:
        raise EvaluationError(f"{text[:80]!r} is not a whole number")
    value = int(f"{match[1]}0{match[2]}")
    if not lowest <= value <= highest:
        raise EvaluationError(f"{text[:80]!r} is not a whole number of its size")
    return value


def java_double(text: str) -> float:
    """Read text as Double.valueOf does. EvaluationError if it is not a number."""
    text = text.strip(_JAVA_BLANKS)
    match = _DECIMAL.fullmatch(text)
    if match is None:
        raise EvaluationError(f"{text[:80]!r} is no number")
    if match["hex"]:
        return _from_hex(match["hex"], is_negative=text[0] == "-")
    return float(text if match["word"] else text.rstrip("fFdD"))


def _from_hex(text: str, *, is_negative: bool) -> float:
    try:
        value = float.fromhex(text)
    except OverflowError:  # Java reads infinity
        value = math.inf
    return -value if is_negative else value
