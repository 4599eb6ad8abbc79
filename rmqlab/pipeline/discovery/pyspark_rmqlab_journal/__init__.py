"""Registers `rmqlab-journal` in every Spark session.

Spark imports data sources from packages with this prefix. See rmqlab/pipeline/journals/journalsource.py.
"""

from rmqlab.pipeline.journals.journalsource import JournalSource as DefaultSource

__all__ = ["DefaultSource"]
