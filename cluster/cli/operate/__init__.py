"""Commands of operators: topics, groups, offsets, write permissions, messages, settings."""
