"""Access control as RocketMQ's plain ACL has it: accounts in YAML files, signed requests, white lists of addresses."""
