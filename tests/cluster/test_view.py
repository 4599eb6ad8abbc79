"""What a person sees, at the width of a terminal."""

import io

from rich.console import Console

from cluster.view import render_nodes

NODES = [
    ("namesrv-1", "nameserver", "ready", None, "127.77.160.1:9876", None, 1234567),
    ("broker-a", "ASYNC_MASTER", "crashed", "exit status 1", "127.77.160.20:10911", "127.77.160.20:10912", None),
    ("broker-a-s", "SLAVE", "ready", None, "127.77.160.21:10911", "127.77.160.21:10912", 1234568),
]


def test_80_columns_show_all_of_every_node() -> None:
    keys = ("name", "role", "state", "end", "address", "ha_address", "pid")
    console = Console(width=80, record=True, file=io.StringIO())
    console.print(render_nodes({"nodes": [dict(zip(keys, node, strict=True)) for node in NODES]}))
    text = console.export_text()
    assert "…" not in text
    for word in ("1234567", "1234568", "crashed", "(exit", "127.77.160.20:10911", ":10912", "ASYNC_MASTER"):
        assert word in text
