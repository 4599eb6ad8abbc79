"""A broker's listening ports: its own, the VIP port, its DLedger group's."""

import socket
from typing import Self

import attrs

from rmqlab.broker.config import BrokerConfig, BrokerSettings
from rmqlab.runtime.net.server import open_listener
from rmqlab.runtime.node.process import StartError

VIP_PORT_DISTANCE = 2


@attrs.frozen(eq=False)
class Ports:
    """Listening sockets. A server that serves a socket owns it from then on."""

    main: socket.socket
    vip: socket.socket
    group: socket.socket | None

    @classmethod
    def open(cls, settings: BrokerSettings) -> Self:
        """Open all ports. StartError if one of them is taken."""
        config, dledger = settings.broker, settings.dledger
        opened: list[socket.socket] = []
        try:
            opened.append(open_listener(config.listen_address, config.listen_port))
            vip_port = config.fast_listen_port
            if vip_port is None:
                vip_port = opened[0].getsockname()[1] - VIP_PORT_DISTANCE
            opened.append(open_listener(config.listen_address, vip_port))
            if dledger.enable_dleger_commit_log:
                port = int(dledger.own_address.rpartition(":")[2])
                opened.append(open_listener(config.listen_address, port))
        except OSError as exc:
            for sock in opened:
                sock.close()
            raise StartError(exc.strerror or str(exc)) from None
        main, vip, *group = opened
        return cls(main, vip, group[0] if group else None)

    def written_into(self, config: BrokerConfig) -> BrokerConfig:
        """Return the configuration with the ports that the system chose for 0."""
        return attrs.evolve(config, listen_port=self.main.getsockname()[1], fast_listen_port=self.vip.getsockname()[1])

    def close(self) -> None:
        """Close the sockets; those that a server has closed stay closed."""
        for sock in (self.main, self.vip, self.group):
            if sock is not None:
                sock.close()
