"""The audit of a run on Spark: what the journals say against what lies in the stores, at any size.

It answers the metrics of `rmqlab check` by the same names and definitions (cluster/checks), by other code and without
holding the run in memory; both must agree. Each module answers one question with tables and findings.

What is shuffled, and by which key: fates by message id, once (the largest by far: all sends, failures, deliveries and
copies, in slim rows); order of stored messages by message id for the join and by (node, queue) for the window; order
and repeats of deliveries by (group, queue) and (group, message id); outages by target; divergence by (slave, log
offset). Nothing but counts, at most a hundred rows of evidence a metric, and the few events of nodes come to the driver.

For 10^9 messages (an estimate, spark.md section 10, not measured here): some 60 to 100 GB of shuffle for the fates, so
500 to 800 partitions (`spark.sql.shuffle.partitions`) of 128 to 200 MB. Windows by queue are as parallel as there are
queues: with few queues they must be cut into chunks of offsets first, which is not built.
"""
