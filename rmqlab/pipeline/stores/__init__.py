"""The data sources of a store's files: records, and queue entries."""
