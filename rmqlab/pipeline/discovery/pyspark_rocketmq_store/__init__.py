"""Spark looks for data sources in packages of this name: with it `rocketmq-store` is known to every session.

See rmqlab/pipeline/storesource.py.
"""

from rmqlab.pipeline.storesource import StoreSource as DefaultSource

__all__ = ["DefaultSource"]
