"""Copies of a run with one planted violation each, to try the judges with.

`rmqlab plant` makes one; `make planted` plays all kinds and holds both judges to what each kind declares. A kind is a
function that changes the copy, and an entry in one of the tables that `kinds.KINDS` puts together.
"""
