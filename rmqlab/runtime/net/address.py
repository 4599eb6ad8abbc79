"""The form in which peers are named everywhere."""


def address_text(address: tuple[str, int] | str) -> str:
    """Return `ip:port` of a socket's address; other kinds of addresses as they are."""
    return f"{address[0]}:{address[1]}" if isinstance(address, tuple) else str(address)
