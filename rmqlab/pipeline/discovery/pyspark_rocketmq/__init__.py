"""Registers `rocketmq` in every Spark session.

Spark imports data sources from packages with this prefix. See rmqlab/pipeline/topicsource.py.
"""

from rmqlab.pipeline.topicsource import TopicSource as DefaultSource

__all__ = ["DefaultSource"]
