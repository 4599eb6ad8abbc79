"""Types of options that are numbers.

Python accepts `nan` and `inf`; no option does.
"""

import math
from typing import Any

import click
from click.types import FloatParamType


class Number(FloatParamType):
    """A finite number."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite number.", param, ctx)
        return number


class NumberRange(click.FloatRange):
    """A finite number in a range."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number."""
        return super().convert(Number().convert(value, param, ctx), param, ctx)
