"""Operators' commands on topics, groups, offsets, messages and settings.

The semantic model is mqadmin 4.9.8. The functions work on the lab's clusters and on RocketMQ, over `rmqlab.client`.
They return values; `OperationError` has one line that says what was wrong. The command line, the scenario actions and
other interfaces call them.
"""
