"""A server whose links can have faults."""

from collections.abc import AsyncIterator

import pytest

from tests.faults.linknode import Node, open_node


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    async with open_node() as node:
        yield node
