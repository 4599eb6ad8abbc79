"""Parsing and evaluation of SQL92 expressions (broker-requests section 2.3).

The expressions of the tables below were given to SqlFilter of 4.9.7, too, with many thousands of random ones: each is
an error there and here, or lets the same messages through.
"""

import contextlib
import re
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.broker.filter import lexer
from rmqlab.broker.filter.lexer import MAX_LENGTH, FilterError
from rmqlab.broker.filter.sql92 import MAX_OPERANDS, compile_filter

MESSAGE = {
    "a": "5", "b": "5.5", "c": "abc", "yes": "true", "no": "False", "long": "9999999999", "spaced": " 7 ", "TAGS": "TagA",
    "zero": "0", "minus": "-3", "NaN": "NaN", "quote": "it's", "$_x9": "1", "one": "1", "hex": "0x1p3", "suffix": "5d",
}  # fmt: skip
"""Its properties. `m`, `n` and `o` are missing."""


@pytest.mark.parametrize(
    "expression",
    [
        "a = 5", "a = '5'", "a <> 6", "a > 4", "a >= 5", "a < 6", "a <= 5", "5 = a", "4 < a", "a = 5l", "a = 5L",
        "b = 5.5", "b > 5.4", "b > .5", "b < 5.5E1", "b < 1E1", "b > 5.", "a > 4.5", "a = 5.0", "minus = -3", "minus < -2",
        "minus = +-3", "minus = - 3", "long > 9999999998", "long = 9999999999", "a < b", "b > a", "spaced > a", "hex > a",
        "suffix < b", "a BETWEEN 5 AND 6", "a between 1 and 5", "a NOT BETWEEN 6 AND 7", "b BETWEEN 5.0 AND 6.5",
        "a = 5 -- open",
        "c IN ('abc', 'x')", "c NOT IN ('x')", "c in ('a', 'b', 'd', 'e', 'f', 'abc')", "(c) IN ('abc')",
        "m IS NULL", "c IS NOT NULL", "NOT (m IS NOT NULL)", "m = n", "NULL IS NULL", "5 IS NOT NULL",
        "yes = TRUE", "no = false", "c = FALSE", "yes <> FALSE", "TRUE", "NOT FALSE", "NOT NOT TRUE",
        "quote = 'it''s'", "$_x9 = 1", "TAGS = 'TagA'", "NOT (a = 6)", "(((a = 5)))",
        "a = 5 OR m = 1", "m = 1 OR a = 5", "a = 5 AND c = 'abc' OR FALSE", "FALSE OR a = 5 AND TRUE", "NOT (m = 1 AND a = 6)",
        "a\n=\t5", "a = 5 -- five\n AND TRUE", "/* the * first */ a /**/ = 5", "a = 5 /* * / ** */", "NaN > a", "zero = -0",
        "yes = true = TRUE", "a = 5 nothing here is read", "a = 5 5", "a = 5)", "-a IS NULL",
        "-'x' IS NULL", "NOT c", "a = 5 AND NOT c", "(a > 4) = TRUE", "5 = 5", "'x' = 'x'", "TRUE = TRUE", "1 = 1.0",
        "1 = TRUE OR TRUE", "NOT (1 = TRUE)", "NOT a IS NOT NULL", "NOT a = TRUE", "a = 5 IS NOT NULL", "m IS NULL OR a NOT BETWEEN 6 AND 2", "a NOT BETWEEN 7 AND 6",
    ],
)  # fmt: skip
def test_messages_that_match(expression: str) -> None:
    """broker-requests#48."""
    assert compile_filter(expression)(MESSAGE)


@pytest.mark.parametrize(
    "expression",
    [
        "a = 6", "a <> 5", "a > 5", "a < 5", "c = 'ABC'", "A = 5", "m = 5", "m <> 5", "m > 5", "NOT m = 5", "NOT (m > 5)", "NOT a = 6", "NOT c = 5",
        "m IN ('x')", "m NOT IN ('x')", "NOT (m IN ('x'))", "m BETWEEN 1 AND 2", "m NOT BETWEEN 1 AND 2", "m IS NOT NULL",
        "c IS NULL", "c", "m", "NOT m", "NULL", "NOT NULL", "FALSE", "a = m", "m = a",
        "m = 1 AND a = 5", "m = 1 OR a = 6", "a = 6 AND m = 1", "NOT (m = 1 OR a = 6)",
        "c IN ('x')", "c NOT IN ('abc')", "a NOT BETWEEN 1 AND 5", "a BETWEEN 6 AND 7", "a CONTAINS '5'", "-a = 5",
    ],
)  # fmt: skip
def test_messages_that_do_not_match(expression: str) -> None:
    assert not compile_filter(expression)(MESSAGE)


@pytest.mark.parametrize(
    "expression",
    [
        "c > 5", "c = 5", "c <> 5", "b > 5", "b = 5", "long = 5", "long < 5", "spaced > 6", "a > c", "c < c", "5 < c",
        "TRUE = yes", "FALSE = c", "(a = 5) = yes", "c = 5 OR a = 5", "c = 5.5", "c BETWEEN 1 AND 2",
        "suffix = 5", "hex = 8",
    ],
)  # fmt: skip
def test_where_java_fails_nothing_matches(expression: str) -> None:
    """Neither it nor its opposite: the exception ends the whole evaluation."""
    assert not compile_filter(expression)(MESSAGE)
    assert not compile_filter(f"NOT ({expression})")(MESSAGE)


def test_operands_after_a_decided_result_are_not_evaluated() -> None:
    assert compile_filter("a = 5 OR c > 5")(MESSAGE)
    assert not compile_filter("NOT (a = 6 AND c > 5) AND FALSE")(MESSAGE)
    assert compile_filter("NOT (a = 6 AND c > 5)")(MESSAGE)


@pytest.mark.parametrize(
    "expression",
    [
        "", "  ", "a =", "= 5", "a > 'x'", "'x' < a", "a > TRUE", "TRUE > 1", "a > NULL", "a = NULL", "NULL = a", "NULL <> a",
        "5", "'x'", "-a", "-5", "NOT 5", "5 AND TRUE", "TRUE OR 'x'", "a IN", "a IN ()", "a IN (5)", "a IN ('x'", "a IN ('x',)",
        "5 IN ('x')", "(a = 5) IN ('x')", "a BETWEEN 1", "a BETWEEN 1 OR 2", "a BETWEEN 2 AND 1", "a BETWEEN NULL AND 1",
        "a BETWEEN 'x' AND 'z'", "a BETWEEN 'x' AND 5", "a NOT 5", "a IS 5", "a IS NOT 5", "(a = 5", "a > 5 > 6", "a = 5 !",
        "a = 'open", "a = 0.0", "a = 1E400", "a = 9223372036854775808", "a == 5", "a = #", "AND", "NOT", "TRUE = 'x'",
        "a = 5 AND", "a ! b", "a >= (b = 5)", "()", "NOT m > 5", "NOT m IN ('x')", "NOT 1 = TRUE",
    ],
)  # fmt: skip
def test_invalid_expressions_are_rejected(expression: str) -> None:
    with pytest.raises(FilterError):
        compile_filter(expression)


def test_an_invalid_expression_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pull of a lite pull consumer brings its expression."""
    texts = list[str]()

    def tokens(text: str) -> Iterator[object]:
        texts.append(text)
        raise FilterError("on purpose")

    monkeypatch.setattr("rmqlab.broker.filter.sql92.tokens", tokens)
    for _ in range(3):
        with pytest.raises(FilterError, match="on purpose"):
            compile_filter("an invalid expression of this test alone")
    assert len(texts) == 1


def test_an_expression_that_is_too_long_is_not_kept() -> None:
    """A heartbeat of 4 MiB, or the header of a pull, may be one."""
    text = " " * MAX_LENGTH + "x"
    kept = sys.getrefcount(text)
    with pytest.raises(FilterError, match="65537 characters"):
        compile_filter(text)
    assert sys.getrefcount(text) == kept


def test_the_smallest_and_greatest_constants_are_taken() -> None:
    assert compile_filter("a > 4.9E-324")(MESSAGE)
    assert compile_filter("a < 1.7976931348623157E308")(MESSAGE)
    assert compile_filter("a < 9223372036854775807")(MESSAGE)
    assert compile_filter("a > -2147483648")(MESSAGE)


def test_a_long_chain_is_no_deep_one() -> None:
    expression = " OR ".join(f"a = '{number}'" for number in range(10_000, 10_000 - MAX_OPERANDS // 2 + 1, -1))
    assert compile_filter(expression + " OR a = '5'")(MESSAGE)
    assert not compile_filter(expression)(MESSAGE)


@pytest.mark.parametrize(
    "expression",
    [
        "(" * 8_000 + "a = 5" + ")" * 8_000,
        "NOT " * 8_000 + "TRUE",
        "- " * 8_000 + "a = 5",
        "+ " * 8_000 + "a = 5",
        "a" + " IS NULL" * 1_500,
        "a" + " IS NOT NULL" * 1_500,
        "a" + " = a" * 900,
        "NOT (" * 1_000 + "a = 5" + ")" * 1_000,
        "(" * 500 + "a" + " IS NULL)" * 500,
        "a = " + "9" * 5_000,
        "a = " + "9" * 60_000 + "L",
        "a = " + "9" * 5_000 + ".5",
        "a = 1E" + "9" * 5_000,
        "a = '" + "x" * 70_000 + "'",
        " OR ".join(["a = 5"] * (MAX_OPERANDS // 2 + 1)),
        " OR ".join(["a > " + "--" * 40 + "1"] * (MAX_OPERANDS // 80)),
        " OR ".join(["NOT " * 80 + "a = 5"] * (MAX_OPERANDS // 80)),
        " OR ".join(["a" + " IS NULL" * 80] * (MAX_OPERANDS // 80)),
    ],
)
def test_an_expression_above_a_limit_is_rejected_with_a_short_error(expression: str) -> None:
    """issue 12.5"""
    with pytest.raises(FilterError) as caught:
        compile_filter(expression)
    assert len(str(caught.value)) < 300


def test_signs_in_the_last_line_do_not_search_for_the_end_of_a_comment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 900 such searches through 60,000 characters costs some milliseconds."""
    first, last = "-- a comment\n a = 6", " OR a < --6"
    assert compile_filter(first + last)(MESSAGE)
    monkeypatch.setattr(lexer, "_TOKEN", re.compile("(?P<text>'x')"))
    assert compile_filter("a = 6" + last * 2)(MESSAGE)
    with pytest.raises(FilterError):
        compile_filter(first + last * 2)


@pytest.mark.parametrize(("opening", "depth"), [("(", 95), ("NOT (", 45), ("NOT ", 95), ("(NOT ", 45)])
def test_a_nest_within_the_limit_is_evaluated(opening: str, depth: int) -> None:
    closing = ")" * depth if "(" in opening else ""
    inverted = depth % 2 if "NOT" in opening else 0
    assert compile_filter(opening * depth + "(a = 5)" + closing)(MESSAGE) is not bool(inverted)


@pytest.mark.parametrize(
    ("expression", "value", "matches"),
    [
        ("p > 1", "9" * 5_000, False),  # no int: Java fails
        ("p > 9999999999", "9" * 5_000, False),
        ("p = 1", "0" * 5_000 + "1", True),
        ("p = 9999999999", "+" + "0" * 5_000 + "9999999999", True),
        ("p > 1.5", "9" * 5_000, True),  # Double.valueOf gives infinity
        ("p > 1.5", "0x1p99999", True),
        ("p < 1.5", "-0x1p99999", True),
        ("p < 1.5", "0x1p-99999", True),
        ("p > 1.5", "0x.8p99999999999999999999", True),
        ("p > 1.5", "1E99999", True),
    ],
)
def test_numbers_of_any_length(expression: str, value: str, matches: bool) -> None:  # noqa: FBT001 - parametrized
    """issue 12.5"""
    assert compile_filter(expression)({"p": value}) is matches


NUMBERS = st.from_regex(r"[ +-]{0,2}(0[xX])?[0-9a-fA-F.]{0,12}([eEpP][+-]?[0-9]{1,8})?[lLfFdD]?", fullmatch=True)
LONG = st.builds(
    lambda head, digit, count, tail: head + digit * count + tail,
    st.sampled_from(["", "-", "+", "0x", "-0x1p", "1E", "."]),
    st.sampled_from("0159"),
    st.sampled_from([1, 20, 400, 4301, 6000]),
    st.sampled_from(["", "x", ".", "L", "f", "p1", "E5"]),
)
ODD = NUMBERS | LONG | st.text(max_size=10) | st.sampled_from(["NaN", "-Infinity", "true", "\ud800", "\0"])
OPERANDS = st.sampled_from(["a", "b", "'x'", "TRUE", "FALSE", "NULL", "1", "2147483648", "1.5", "-1", "'9'"])
SIGNS = st.sampled_from(["=", "<>", "<", ">=", "AND", "OR", "BETWEEN 1 AND", "NOT BETWEEN a AND"])
FORMS = st.sampled_from(["({})", "NOT {}", "- {}", "{} IS NOT NULL", "{} NOT IN ('x', '5')"])
EXPRESSIONS = st.recursive(
    OPERANDS,
    lambda inner: st.tuples(inner, SIGNS, inner).map(" ".join) | st.builds(str.format, FORMS, inner),
    max_leaves=6,
)


@given(EXPRESSIONS, st.dictionaries(st.sampled_from(["a", "b"]), ODD))
def test_any_expression_over_any_properties_has_an_outcome(expression: str, properties: dict[str, str]) -> None:
    try:
        matches = compile_filter(expression)
    except FilterError:
        return
    assert matches(properties) in (True, False)


@given(st.text())
def test_any_characters_are_an_expression_or_an_error(text: str) -> None:
    with contextlib.suppress(FilterError):
        compile_filter(text)(MESSAGE)


@given(st.text(alphabet="ab15.'(),=<>+- \nNOTANDORINISULBEWétrfalse_$/*", max_size=40))
def test_any_text_is_an_expression_or_an_error(text: str) -> None:
    try:
        matches = compile_filter(text)
    except FilterError:
        return
    assert matches(MESSAGE) in (True, False)
    assert matches({}) in (True, False)
