"""Spark looks for data sources in packages of this name: with it `rocketmq-store` is known to every session.

See pipeline/storesource.py.
"""

from pipeline.storesource import StoreSource as DefaultSource

__all__ = ["DefaultSource"]
