"""What a slave leaves to its master (broker-requests section 7; AdminBrokerProcessor.validateSlave)."""

from rmqlab.broker.state import Broker
from rmqlab.remoting.codes import ResponseCode
from rmqlab.runtime.dispatch import Refusal


def refuse_on_slave(broker: Broker) -> None:
    """Turn a change of topics or groups down, unless this is a master (broker-requests#64).

    It comes before the header is read: also a request that makes no sense is told where to go.
    """
    if broker.is_slave:
        raise Refusal(ResponseCode.SYSTEM_ERROR, "this is a slave: topics and groups are changed at its master")
