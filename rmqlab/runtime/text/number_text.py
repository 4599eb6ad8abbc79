"""Numbers for people, never in the form 1.5e+06, as `:g` has it."""


def plain(value: float, digits: int = 6) -> str:
    """Return a number rounded to so many significant digits: 1500000, 0.25.

    Digits before the point are kept, however many there are.
    """
    text = f"{value:.{digits}g}"
    if "e" not in text:
        return text
    return f"{value:.0f}" if abs(value) >= 1 else f"{value:.12f}".rstrip("0").rstrip(".")
