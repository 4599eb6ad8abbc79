"""Many processes as one: start, watch, break, judge."""
