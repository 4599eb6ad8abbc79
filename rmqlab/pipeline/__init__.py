"""Analysis of large data with Spark: data sources, the audit and report of a run."""
