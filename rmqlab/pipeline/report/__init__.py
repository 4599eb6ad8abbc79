"""The report of an audited run: one page that stands alone, drawn from the audit's tables, without Spark and scripts."""
