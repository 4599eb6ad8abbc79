"""Counts the bytes of some connections."""

import attrs


@attrs.define(eq=False)
class Meter:
    """Bytes that passed since the process began, without the headers of TCP and IP."""

    sent: int = 0
    received: int = 0
