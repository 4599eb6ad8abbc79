"""Tests that the team of the shop would write: the master dies during each.

    pytest examples/app_under_test

Nothing is imported from rmqlab: the installed package provides the fixture `rmq_cluster`.
"""

import threading
from typing import Any

import pytest
import trio
from shop import sell

ORDERS = [f"order-{number}" for number in range(20)]


def test_every_order_arrives(rmq_cluster: Any) -> None:
    assert trio.run(sell, rmq_cluster.namesrv_addr, ORDERS) == len(ORDERS)
    assert len(rmq_cluster.consume("orders", count=len(ORDERS))) == len(ORDERS)


@pytest.mark.rmq_cluster(slaves=0)
def test_no_order_is_lost_when_the_master_dies_and_comes_back(rmq_cluster: Any) -> None:
    trio.run(sell, rmq_cluster.namesrv_addr, ["first"])
    rmq_cluster.kill("broker-a:master")

    selling = threading.Thread(target=trio.run, args=(sell, rmq_cluster.namesrv_addr, ORDERS))
    selling.start()
    rmq_cluster.wait_until("route-gone broker-a:master")
    rmq_cluster.start("broker-a:master")
    selling.join()

    rmq_cluster.consume("orders", count=1 + len(ORDERS))  # raises WaitTimeoutError if fewer arrive
