"""Spark looks for data sources in packages of this name: with it `rocketmq` is known to every session.

See pipeline/topicsource.py.
"""

from pipeline.topicsource import TopicSource as DefaultSource

__all__ = ["DefaultSource"]
