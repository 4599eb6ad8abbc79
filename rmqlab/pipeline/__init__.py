"""Questions asked of more data than one process should hold: data sources for Spark, the audit of a run, its report."""
