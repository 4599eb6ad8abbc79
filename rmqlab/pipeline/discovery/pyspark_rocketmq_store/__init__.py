"""Registers `rocketmq-store` in every Spark session.

Spark imports data sources from packages with this prefix. See rmqlab/pipeline/stores/storesource.py.
"""

from rmqlab.pipeline.stores.storesource import StoreSource as DefaultSource

__all__ = ["DefaultSource"]
