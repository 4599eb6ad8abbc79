"""A cluster's directory, its stores and its logs."""
