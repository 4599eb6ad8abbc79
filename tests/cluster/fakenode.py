"""A node without a service: listens, is ready, replies with settings, and stops."""

import pathlib
import socket
import tomllib
from typing import Any

import trio

from rmqlab.runtime.node.control import ControlLink
from rmqlab.runtime.node.process import StartError


def load_config(path: str | pathlib.Path) -> dict[str, Any]:
    with pathlib.Path(path).open("rb") as file:
        return tomllib.load(file)


async def main(config: dict[str, Any], link: ControlLink) -> None:
    if config.get("refuse"):
        raise StartError(f"refused: {config['refuse']}")
    print("a line of output")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if "listen_port" in config:
            listener.bind((config["listen_address"], config["listen_port"]))
            listener.listen()
        link.on_snapshot.append(
            lambda: {"config": config, "time": trio.current_time(), "rules": dict(link.faults.rules)}
        )
        link.emit("listening", port=config.get("listen_port"))
        if not config.get("never_ready"):
            link.ready()
        try:
            await trio.sleep_forever()
        finally:
            link.emit("closing")
            if config.get("never_ends"):
                with trio.CancelScope(shield=True):
                    await trio.sleep_forever()
