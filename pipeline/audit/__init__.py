"""The audit of a run on Spark: what the journals say against what lies in the stores, at any size.

It answers the metrics of `rmqlab check` by the same names and definitions (cluster/checks), by other code and without
holding the run in memory; both must agree. Each module answers one question with tables and findings.
"""
