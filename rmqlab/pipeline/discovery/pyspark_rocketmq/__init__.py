"""Registers `rocketmq` in every Spark session.

Spark imports data sources from packages with this prefix. See rmqlab/pipeline/topics/topicsource.py.
"""

from rmqlab.pipeline.topics.topicsource import TopicSource as DefaultSource

__all__ = ["DefaultSource"]
