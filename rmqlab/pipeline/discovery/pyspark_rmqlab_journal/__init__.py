"""Spark looks for data sources in packages of this name: with it `rmqlab-journal` is known to every session.

See rmqlab/pipeline/journalsource.py.
"""

from rmqlab.pipeline.journalsource import JournalSource as DefaultSource

__all__ = ["DefaultSource"]
