"""Times in error messages."""

from rmqlab.runtime.text.number_text import plain

_NEARLY_ALL = 0.9
"""Share of the whole time from which on the rest counts as the whole."""


def no_response(code: int, timeout: float, whole: float | None = None) -> str:
    """Return the error of a request that got no response in the time of `time_given`."""
    return f"no response to request code {code} within {time_given(timeout, whole)}"


def time_given(timeout: float, whole: float | None = None) -> str:
    """Return a time limit for a person: `3 s`, `50 ms`, or `the 1 ms left of 3 s`.

    Both are in seconds. `whole` is the time for all of the work, if `timeout` is what earlier steps left of it: a
    remaining time alone, such as 0 s, looks like a wrong setting.
    """
    if whole is None or timeout >= _NEARLY_ALL * whole:
        return _duration(timeout if whole is None else whole)
    return f"the {timeout * 1000:.0f} ms left of {_duration(whole)}"


def _duration(seconds: float) -> str:
    return f"{plain(seconds, 3)} s" if seconds >= 1 else f"{plain(seconds * 1000, 3)} ms"
