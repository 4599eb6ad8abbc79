"""Events for the routes of a producer's client. Consumers emit their own."""

from rmqlab.client.instance import Client
from rmqlab.remoting.bodies.route import TopicRouteData
from rmqlab.runtime.node.control import ControlLink


def emit_routes(client: Client, link: ControlLink) -> None:
    """Emit an event for every changed route that the client receives from now on."""

    def emit_route(topic: str, route: TopicRouteData) -> None:
        brokers = {
            data.broker_name: {str(broker_id): address for broker_id, address in sorted(data.broker_addrs.items())}
            for data in route.broker_datas
        }
        link.emit("route_believed", topic=topic, brokers=brokers)

    client.on_route.append(emit_route)
