"""The report of an audited run: one self-contained page, made without Spark.

It is built from the audit's tables.
"""
