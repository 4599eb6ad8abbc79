"""Audit a run with Spark: compare its journals with its stores, at any size.

Computes the metrics of `rmqlab check` with the same names and definitions (cluster/checks), but with separate code and
without holding the run in memory; both must return the same values. Each module computes the tables and findings of
one question.

Shuffles and their keys: fates by message id, once (by far the largest: all sends, failures, deliveries and copies, in
rows of few columns); order of stored messages by message id for the join and by (node, queue) for the window; order
and repeats of deliveries by (group, queue) and (group, message id); outages by target. Logs are compared with each
other, and with their queues, by fingerprints (`fingerprints`); their rows are joined only if these differ, by commit
log offset. Messages in no store, or of another producer, are looked for only if a fate suspects one. The driver
receives only counts, at most a hundred rows of evidence per metric, and the few events of nodes.

For 10^9 messages (an estimate, spark.md section 10, not measured here): 60 to 100 GB of shuffle for the fates, which
needs 500 to 800 partitions (`spark.sql.shuffle.partitions`) of 128 to 200 MB. Windows by queue run in as many parallel
tasks as there are queues, or chunks of long queues (`order`).
"""
