"""Errors on stderr."""

from rmqlab.runtime.text.errorline import error_text


def test_an_error_is_broken_between_words_and_paths_stay_whole() -> None:
    path = "/home/somebody/a/long/path/of/a/directory"
    assert error_text(f"{path}: no journal; expected a run's directory", 30).split("\n") == [
        "rmqlab:",
        f"  {path}:",
        "  no journal; expected a run's",
        "  directory",
    ]


def test_without_a_terminal_an_error_is_one_line() -> None:
    text = "word " * 100
    assert error_text(text) == f"rmqlab: {text}"
    assert error_text("one\ntwo\n  three") == "rmqlab: one\n  two\n  three"
