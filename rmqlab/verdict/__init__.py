"""What both judges of a run share: outcomes, metrics, findings, causes, and what a verdict rests on.

`rmqlab check` (plain Python) and `rmqlab audit` (Spark) compute the same metrics independently of each other. Only the
way to the numbers is theirs: what a metric means, when it is unknown and what follows from it is declared here, once.
"""
