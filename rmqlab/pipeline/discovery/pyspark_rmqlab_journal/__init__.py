"""Registers `rmqlab-journal` in every Spark session.

Spark imports data sources from packages with this prefix. See rmqlab/pipeline/journalsource.py.
"""

from rmqlab.pipeline.journalsource import JournalSource as DefaultSource

__all__ = ["DefaultSource"]
