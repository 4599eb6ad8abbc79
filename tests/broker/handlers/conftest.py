"""A broker that has messages to pull."""

import pytest

from rmqlab.broker.testing import TalkingBroker


@pytest.fixture
def filled(talk: TalkingBroker) -> TalkingBroker:
    """Five messages in queue 0 of T."""
    for number in range(5):
        talk.send("T", body=b"%d" % number)
    return talk
