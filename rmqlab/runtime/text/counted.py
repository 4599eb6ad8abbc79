"""Numbers with a noun, for sentences: `1 message`, `2 messages`."""

_SINGULAR = {"deliveries": "delivery", "entries": "entry"}


def counted(number: float | str, plural: str) -> str:
    """Return the number and its noun, which is singular after 1.

    `plural` is the regular plural of a noun, or the symbol of a unit, such as `s`.
    """
    return f"{number} {singular(plural) if number in (1, '1') else plural}"


def singular(plural: str) -> str:
    """Return the singular of a noun; the symbol of a unit, such as `s`, as it is."""
    return _SINGULAR.get(plural, plural.removesuffix("s") if len(plural) > 1 else plural)
