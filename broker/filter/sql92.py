"""SQL92 expressions over message properties, compiled into functions.

    or      = and {"OR" and}                          three-valued logic: unknown for a missing property
    and     = equal {"AND" equal}
    equal   = compared {("=" | "<>") compared | "IS" ["NOT"] "NULL"}
    compared = unary {(">" | ">=" | "<" | "<=") unary
                     | ["NOT"] "BETWEEN" unary "AND" unary | ["NOT"] "IN" "(" text {"," text} ")"}
    unary   = ("+" | "-" | "NOT") unary | primary
    primary = text | number | "TRUE" | "FALSE" | "NULL" | property | "(" or ")"

Sources: module `filter` of 4.9.8 (SelectorParser.jj, package expression). Its oddities are kept: text after a complete
expression is ignored (so CONTAINS, which is new in 5.x, is accepted and never matches); 0.0 is not a constant; a
property alone is false, because it is text.
"""

import functools
import sys
from collections.abc import Callable, Mapping

import attrs

from rmqlab.broker.filter.lexer import MAX_LENGTH, FilterError, Token, tokens
from rmqlab.broker.filter.values import (
    MAX_DIGITS,
    EvaluationError,
    Value,
    compare,
    compare_by_size,
    is_equal,
    negated,
    whole_number,
)

Properties = Mapping[str, str]
Evaluate = Callable[[Properties], Value]
Matches = Callable[[Properties], bool]

MAX_COMPILED = 100
"""Compiled expressions that are kept, as in SelectorParser."""

MAX_DEPTH = 100
"""Brackets, signs and NOTs within one another; of comparisons in a row, as in `a IS NULL IS NULL`, twice as many."""
MAX_OPERANDS = 2000
"""Maximum number of properties, constants, signs, NOTs and comparisons with NULL in one expression. All texts after IN
count as one."""

_BY_SIZE: dict[str, Callable[[int], bool]] = {
    ">": lambda order: order > 0,
    ">=": lambda order: order >= 0,
    "<": lambda order: order < 0,
    "<=": lambda order: order <= 0,
}


@attrs.frozen
class Node:
    """A part of an expression: its evaluation, and the operators that accept it."""

    evaluate: Evaluate
    is_boolean: bool = False
    is_constant: bool = False
    value: Value = None
    """Of a constant."""
    is_property: bool = False
    shown: str = "an expression"
    depth: int = 1
    """Calls within calls that evaluate it."""


@attrs.frozen(eq=False)
class CompiledFilter:
    """A compiled expression: a function from a message's properties to True or False."""

    _evaluate: Evaluate
    operands: int
    """As MAX_OPERANDS counts them: the cost of one evaluation."""

    def __call__(self, properties: Properties) -> bool:
        """Return False if the expression is false or unknown, and where Java raises.

        Java raises, for example, when text that is not a number is compared with a number.
        """
        try:
            return self._evaluate(properties) is True
        except EvaluationError:
            return False


def compile_filter(expression: str) -> CompiledFilter:
    """Compile an expression. FilterError if it is invalid."""
    # Those that are too long are not cached: they would be kept with their error.
    result = (_compiled if len(expression) <= MAX_LENGTH else _compiled.__wrapped__)(expression)
    if isinstance(result, str):
        raise FilterError(result)
    return result


@functools.lru_cache(MAX_COMPILED)
def _compiled(expression: str) -> CompiledFilter | str:
    """Return the filter, or what is wrong with the expression.

    Each pull of a consumer without heartbeats brings its expression again.
    """
    try:
        parser = _Parser(expression)
        return CompiledFilter(parser.parse().evaluate, parser.operands)
    except FilterError as exc:
        return str(exc)
    except RecursionError:
        return "too many parts within parts"


class _Parser:
    """Reads an expression from left to right, one token ahead."""

    def __init__(self, expression: str) -> None:
        self._tokens = tokens(expression)
        self._ahead: Token | None = None
        self._depth = self.operands = 0

    def parse(self) -> Node:
        return _boolean(self._or())

    # -- tokens ----------------------------------------------------------------------------------

    @property
    def _next(self) -> Token:
        if self._ahead is None:
            self._ahead = next(self._tokens)
        return self._ahead

    def _take(self, *kinds: str) -> Token | None:
        """Consume the next token if it is one of these."""
        token = self._next
        if token.kind not in kinds:
            return None
        self._ahead = None
        return token

    def _expect(self, *kinds: str) -> Token:
        token = self._take(*kinds)
        if token is None:
            found = self._next
            raise FilterError(f"at character {found.at + 1}: {' or '.join(kinds)} expected, not {found.image[:80]}")
        return token

    # -- grammar ---------------------------------------------------------------------------------

    def _or(self) -> Node:
        return self._chain("OR", self._and, decisive=True)

    def _and(self) -> Node:
        return self._chain("AND", self._equality, decisive=False)

    def _chain(self, word: str, part: Callable[[], Node], *, decisive: bool) -> Node:
        first = part()
        if self._next.kind != word:
            return first
        parts = [_boolean(first)]
        while self._take(word):
            parts.append(_boolean(part()))
        return _over(_logic([one.evaluate for one in parts], decisive=decisive), *parts)

    def _equality(self) -> Node:
        left = self._comparison()
        while token := self._take("=", "<>", "IS"):
            if token.kind == "IS":
                self._count(token)
                is_negated = self._take("NOT") is not None
                self._expect("NULL")
                left = _negated_if(is_negated, _equal(left, _NULL))
            else:
                right = self._comparison()
                _check_equal(left, right)
                left = _negated_if(token.kind == "<>", _equal(left, right))
        return left

    def _comparison(self) -> Node:
        left = self._unary()
        while token := self._take(">", ">=", "<", "<=", "BETWEEN", "IN", "NOT"):
            is_negated = token.kind == "NOT"
            if is_negated:
                token = self._expect("BETWEEN", "IN")
            if token.kind == "BETWEEN":
                low = self._unary()
                self._expect("AND")
                left = _between(left, low, self._unary(), is_negated=is_negated)
            elif token.kind == "IN":
                left = _one_of(left, self._texts(), is_negated=is_negated)
            else:
                left = _by_size(token.kind, left, self._unary())
        return left

    def _texts(self) -> frozenset[str]:
        self._expect("(")
        texts = {_text_of(self._expect("text"))}
        while self._take(","):
            texts.add(_text_of(self._expect("text")))
        self._expect(")")
        return frozenset(texts)

    def _unary(self) -> Node:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _too_deep()
        node = self._signed()
        self._depth -= 1
        return node

    def _signed(self) -> Node:
        if self._take("+"):
            return self._unary()
        if token := self._take("-"):
            self._count(token)
            inner = self._unary()
            return _over(lambda properties: negated(inner.evaluate(properties)), inner, is_boolean=False)
        if token := self._take("NOT"):
            self._count(token)
            return _negated_if(True, _boolean(self._unary()))
        return self._primary()

    def _primary(self) -> Node:
        token = self._expect("text", "whole", "float", "TRUE", "FALSE", "NULL", "name", "(")
        if token.kind != "(":
            self._count(token)
        match token.kind:
            case "(":
                inner = self._or()
                self._expect(")")
                return inner
            case "name":
                return _property(token.image)
            case "text":
                return _constant(_text_of(token))
            case "whole" | "float":
                return _constant(_number_of(token))
            case _:
                return {"TRUE": _TRUE, "FALSE": _FALSE, "NULL": _NULL}[token.kind]

    def _count(self, token: Token) -> None:
        """Count an operand or operator. FilterError above MAX_OPERANDS."""
        self.operands += 1
        if self.operands > MAX_OPERANDS:
            raise FilterError(f"at character {token.at + 1}: more than {MAX_OPERANDS} operands")


# ---- nodes -----------------------------------------------------------------------------------------------


def _over(evaluate: Evaluate, *parts: Node, is_boolean: bool = True) -> Node:
    """Make a node of a function that evaluates these parts.

    FilterError if they are too deep.
    """
    depth = 1 + max(part.depth for part in parts)
    if depth > 2 * MAX_DEPTH:  # NOT and a comparison in each bracket
        raise _too_deep()
    return Node(evaluate, is_boolean, shown="an expression" if is_boolean else "a number with a sign", depth=depth)


def _too_deep() -> FilterError:
    return FilterError(f"more than {MAX_DEPTH} parts within parts")


def _constant(value: Value, *, is_boolean: bool = False) -> Node:
    return Node(lambda _properties: value, is_boolean, is_constant=True, value=value, shown=repr(value)[:80])


_TRUE, _FALSE = _constant(value=True, is_boolean=True), _constant(value=False, is_boolean=True)
_NULL = _constant(None, is_boolean=True)


def _property(name: str) -> Node:
    return Node(lambda properties: properties.get(name), is_property=True, shown=name[:80])


def _text_of(token: Token) -> str:
    return token.image[1:-1].replace("''", "'")


def _number_of(token: Token) -> Value:
    if token.kind == "float":
        value = float(token.image)
        if not sys.float_info.min * sys.float_info.epsilon <= value <= sys.float_info.max:
            raise FilterError(f"at character {token.at + 1}: {token.image[:80]} is too small or too great")
        return value
    digits = token.image.rstrip("lL")
    number = int(digits[:MAX_DIGITS])
    if number >= 2**63:
        raise FilterError(f"at character {token.at + 1}: {token.image[:80]} has more than 64 bits")
    return whole_number(number)


def _boolean(node: Node) -> Node:
    """Convert a node to a condition.

    A property alone is text, and therefore false if present.
    """
    if node.is_boolean:
        return node
    if not node.is_property:
        raise FilterError(f"{node.shown} is neither true nor false")
    evaluate = node.evaluate
    return _over(lambda properties: None if evaluate(properties) is None else False, node)


def _logic(parts: list[Evaluate], *, decisive: bool) -> Evaluate:
    """Join parts by OR, where True decides, or by AND, where False does.

    Unknown counts if nothing decides.
    """

    def evaluate(properties: Properties) -> Value:
        is_unknown = False
        for part in parts:
            value = part(properties)
            if value is decisive:
                return decisive
            is_unknown = is_unknown or value is None
        return None if is_unknown else not decisive

    return evaluate


def _negated_if(is_negated: bool, node: Node) -> Node:  # noqa: FBT001 - reads as it is called
    if not is_negated:
        return node
    inner = node.evaluate

    def evaluate(properties: Properties) -> Value:
        value = inner(properties)
        return None if value is None else not value

    return _over(evaluate, node)


def _equal(left: Node, right: Node) -> Node:
    first, second = left.evaluate, right.evaluate
    return _over(lambda properties: is_equal(first(properties), second(properties)), left, right)


def _check_equal(left: Node, right: Node) -> None:
    if _NULL in (left, right):
        raise FilterError("NULL cannot be compared; IS NULL can be asked")
    if left.is_constant and right.is_constant and left.is_boolean and not right.is_boolean:
        raise FilterError(f"{left.shown} cannot be compared with {right.shown}")


def _by_size(sign: str, left: Node, right: Node) -> Node:
    for side in (left, right):
        if side.is_boolean or (side.is_constant and isinstance(side.value, str)):
            raise FilterError(f"{side.shown} has no size that {sign} could compare")
    first, second, holds = left.evaluate, right.evaluate, _BY_SIZE[sign]

    def evaluate(properties: Properties) -> Value:
        order = compare_by_size(first(properties), second(properties))
        return None if order is None else holds(order)

    return _over(evaluate, left, right)


def _between(value: Node, low: Node, high: Node, *, is_negated: bool) -> Node:
    if low.is_constant and high.is_constant and not is_negated:
        _check_bounds(low.value, high.value)
    below, above = ("<", ">") if is_negated else (">=", "<=")
    parts = [_by_size(below, value, low), _by_size(above, value, high)]
    return _over(_logic([part.evaluate for part in parts], decisive=is_negated), *parts)


def _check_bounds(low: Value, high: Value) -> None:
    try:
        is_empty = low is None or high is None or compare(high, low) < 0
    except EvaluationError:
        is_empty = True
    if is_empty:
        raise FilterError(f"nothing is between {low!r} and {high!r}")


def _one_of(value: Node, texts: frozenset[str], *, is_negated: bool) -> Node:
    if not value.is_property:
        raise FilterError(f"IN needs a property before it, not {value.shown}")
    evaluate = value.evaluate

    def is_one(properties: Properties) -> Value:
        text = evaluate(properties)
        return None if text is None else (text in texts) is not is_negated

    return _over(is_one, value)
