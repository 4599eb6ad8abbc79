"""Registers `rocketmq-store` in every Spark session.

Spark imports data sources from packages with this prefix. See rmqlab/pipeline/storesource.py.
"""

from rmqlab.pipeline.storesource import StoreSource as DefaultSource

__all__ = ["DefaultSource"]
