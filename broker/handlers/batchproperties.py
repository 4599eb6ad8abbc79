"""Properties in the header of a batch, which its messages get (CommitLog)."""

import functools
from collections.abc import Mapping
from typing import Final, Self

import attrs

from rmqlab.broker.handlers.copies import waits_for_store
from rmqlab.remoting.codes import ResponseCode
from rmqlab.remoting.header import java_number
from rmqlab.remoting.message import (
    PROPERTY_CLUSTER,
    PROPERTY_DELAY,
    TRANSACTION_MASK,
    format_properties,
    parse_properties,
)
from rmqlab.runtime.net.dispatch import Refusal

_MAX_KNOWN: Final = 256
"""Longest properties, in characters, whose parsed form is cached."""


@attrs.frozen
class BatchProperties:
    """Properties of a batch's header."""

    parsed: Mapping[str, str]
    stored: str
    """Encoded as in each record, with the name of the cluster."""
    delay_level: int
    waits: bool
    """False if the sender waits for the master's log only."""

    @classmethod
    def of(cls, text: str, cluster: str) -> Self:
        """Parse the properties. ValueError if the delay level is not a number."""
        parsed = parse_properties(text)
        delay_level, waits = java_number(parsed.get(PROPERTY_DELAY, "0")), waits_for_store(parsed)
        stored = format_properties(parsed | {PROPERTY_CLUSTER: cluster})
        return cls(parsed, stored, delay_level, waits)

    @classmethod
    def of_plain_batch(cls, text: str, sys_flag: int, cluster: str) -> "BatchProperties":
        """Parse the properties of a batch that is neither transactional nor delayed.

        Refusal for other batches. ValueError if the delay level is not a number, of a batch that is not transactional.
        """
        if not sys_flag & TRANSACTION_MASK:
            properties = (_known if len(text) <= _MAX_KNOWN else cls.of)(text, cluster)
            if properties.delay_level <= 0:
                return properties
        raise Refusal(ResponseCode.MESSAGE_ILLEGAL, "a batch may be neither transactional nor delayed")


# Producers send the same few properties with each batch; those of a message are in the body.
_known = functools.lru_cache(256)(BatchProperties.of)
