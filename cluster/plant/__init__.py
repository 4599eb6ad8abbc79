"""Copies of a run with one planted violation each, to try the judges with.

`rmqlab plant` makes one copy; `make planted` makes all kinds and checks both judges against the declared findings. A
kind is a function that changes the copy, and an entry in one of the tables that `kinds.KINDS` combines.
"""
