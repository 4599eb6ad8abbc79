"""Numbers with a noun, for sentences: `1 message`, `2 messages`."""

_SINGULAR = {"deliveries": "delivery", "entries": "entry"}


def counted(number: float | str, plural: str) -> str:
    """Return the number and its noun, which is singular after 1.

    `plural` is the regular plural of a noun, or the symbol of a unit, such as `s`.
    """
    is_one = number in (1, "1") and len(plural) > 1
    return f"{number} {_SINGULAR.get(plural, plural.removesuffix('s')) if is_one else plural}"
