"""The logs of simulated nodes: each record goes to the file of the node that runs."""

import logging
from pathlib import Path

from rmqlab.runtime.node.logfile import FORMAT, LogFile, PlainFormatter
from rmqlab.simulation.machine import Machine, Node


def open_node_log(path: Path) -> LogFile:
    """Open the log of a node for appending. OSError if that fails."""
    file = LogFile(path, takes_output=False)
    file.setFormatter(PlainFormatter(FORMAT))
    return file


class NodeLogs(logging.Handler):
    """The handler of the root logger.

    Records of no node go to the former handlers.
    """

    def __init__(self, machine: Machine) -> None:
        super().__init__()
        self._machine = machine
        self._files: dict[Node, LogFile] = {}
        self._others: list[logging.Handler] = []

    def install(self) -> None:
        """Replace the root logger's handlers."""
        root = logging.getLogger()
        self._others, root.handlers = root.handlers, [self]
        root.setLevel(logging.INFO)

    def assign(self, node: Node, file: LogFile) -> None:
        """Append the node's records to this file, from now on."""
        self._files[node] = file

    def close_node(self, node: Node) -> None:
        """Close the file of a node that has ended."""
        if (file := self._files.pop(node, None)) is not None:
            file.close()

    def emit(self, record: logging.LogRecord) -> None:
        node = self._machine.current
        if node is not None and (file := self._files.get(node)) is not None:
            file.handle(record)
            return
        for handler in self._others:
            if record.levelno >= max(handler.level, logging.WARNING):
                handler.handle(record)
