"""Access control by RocketMQ's plain ACL.

Accounts in YAML files, signed requests, white lists of addresses.
"""
