"""Numbers with units: `10 s`, `1.5 min`, `0 messages`. Pure.

Times are seconds of the cluster's clock. A number without a unit is rejected, so that a reader need not guess.
"""

import re
from collections.abc import Sequence

import attrs

from rmqlab.runtime.config.validators import as_written
from rmqlab.runtime.text.counted import counted
from rmqlab.runtime.text.number_text import plain

SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0}
"""Units of time, in seconds."""
MOST_SECONDS = 30 * 24 * 3600.0
"""Longest time in a scenario; a longer one is probably a mistake."""

_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?")
_FORM = re.compile(rf"({_NUMBER.pattern}) ?([A-Za-z][A-Za-z_-]*)")


class QuantityError(ValueError):
    """Not a number with a unit. The text names the expected form."""


@attrs.frozen
class Quantity:
    """A number and its unit. Times are converted to `s`."""

    value: float
    unit: str

    @classmethod
    def parse(cls, text: object, examples: Sequence[str] = ("s", "messages")) -> "Quantity":
        """Parse a quantity. QuantityError if it is invalid, with these units as examples."""
        found = _FORM.fullmatch(text.strip()) if isinstance(text, str) else None
        if found is None:
            example = str(text).strip()
            if not _NUMBER.fullmatch(example) or example.startswith("-"):
                example = "5"
            forms = " or ".join(f'"{example} {unit}"' for unit in examples)
            raise QuantityError(f"{as_written(text)}: expected a number with a unit, such as {forms}")
        number, unit = float(found[1]), found[2]
        if unit in SECONDS:
            return cls(number * SECONDS[unit], "s")
        return cls(number, unit)

    def __str__(self) -> str:
        return counted(plain(self.value), self.unit)


def parse_seconds(text: object) -> float:
    """Parse a time, in seconds. QuantityError if it is invalid."""
    quantity = Quantity.parse(text, ("s",))
    if quantity.unit != "s":
        raise QuantityError(f"{as_written(text)}: expected a time: a number with one of {', '.join(SECONDS)}")
    if not 0 <= quantity.value <= MOST_SECONDS:
        raise QuantityError(f"{as_written(text)}: expected a time from 0 s to {MOST_SECONDS / SECONDS['h']:g} h")
    return quantity.value
