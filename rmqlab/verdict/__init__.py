"""Common parts of both judges: outcomes, metrics, findings, causes, verdicts.

`rmqlab check` (plain Python) and `rmqlab audit` (Spark) compute the same metrics independently of each other. Only the
way to the numbers is theirs: what a metric means, when it is unknown and what follows from it is declared here, once.
"""
