"""Refusal of requests that only a master serves (broker-requests section 7).

Source: AdminBrokerProcessor.validateSlave.
"""

from rmqlab.broker.state import Broker
from rmqlab.remoting.codes import ResponseCode
from rmqlab.runtime.net.dispatch import Refusal


def refuse_on_slave(broker: Broker) -> None:
    """Refuse changes of topics or groups unless this is a master (broker-requests#64).

    Runs before the header is parsed, so an invalid request gets the same reply.
    """
    if broker.is_slave:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "this is a slave: topics and groups are changed at its master")
