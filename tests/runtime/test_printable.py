import pytest
from hypothesis import given
from hypothesis import strategies as st

from rmqlab.runtime.text.printable import printable, printable_lines, printable_values


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("group-a %RETRY%x 1.5 'é' 消费者 [/oops]", "group-a %RETRY%x 1.5 'é' 消费者 [/oops]"),
        ("\x1b[31mred\x1b[0m\x07\x00\x7f", "\\x1b[31mred\\x1b[0m\\x07\\x00\\x7f"),
        ("\x9b2J\x85", "\\x9b2J\\x85"),
        ("a\nb\rc\td\x0b\x0c", "a\\nb\\rc\\td\\x0b\\x0c"),
        ("\u202egpj.exe\u2066\u200f", "\\u202egpj.exe\\u2066\\u200f"),
        ("zero\u200bwidth\ufeff\u2028\u2029\u00a0", "zero\\u200bwidth\\ufeff\\u2028\\u2029\\xa0"),
        ("\ud800", "\\ud800"),
        ("\U000e0041", "\\U000e0041"),
    ],
)
def test_terminal_control_characters_are_escaped(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert printable_values({text: [text, {"n": (text, 1, None)}]}) == {shown: [shown, {"n": [shown, 1, None]}]}


@given(st.text(st.characters()))
def test_one_line_stays_one_line_and_is_escaped_once(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert printable(shown) == shown
    assert printable_lines(text).count("\n") == text.count("\n")
