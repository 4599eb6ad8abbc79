"""The report of an audited run: one self-contained page built from the audit's tables, without Spark."""
