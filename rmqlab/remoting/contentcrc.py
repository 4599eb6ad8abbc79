"""A checksum of what a producer sends of a message and no broker changes."""

import zlib


def content_crc(body_crc: int, flag: int, keys: str, tags: str) -> int:
    """Return the CRC-32 of a message's content.

    `body_crc` is that of the body as stored, without its sign bit (store-ha#9). Brokers change or add other properties,
    such as the delay level and the original topic.
    """
    return zlib.crc32(f"{body_crc} {flag} {keys}\x01{tags}".encode("utf-8", "replace"))
