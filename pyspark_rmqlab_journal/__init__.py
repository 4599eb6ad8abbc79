"""Spark looks for data sources in packages of this name: with it `rmqlab-journal` is known to every session.

See pipeline/journalsource.py.
"""

from pipeline.journalsource import JournalSource as DefaultSource

__all__ = ["DefaultSource"]
