"""Spark looks for data sources in packages of this name: with it `rocketmq` is known to every session.

See rmqlab/pipeline/topicsource.py.
"""

from rmqlab.pipeline.topicsource import TopicSource as DefaultSource

__all__ = ["DefaultSource"]
