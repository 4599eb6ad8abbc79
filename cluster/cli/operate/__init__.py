"""Commands of operators on topics, groups, offsets, messages and settings."""
