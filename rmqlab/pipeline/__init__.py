"""Analysis of large data with Spark: data sources, the audit of a run, and its report."""
