"""One broker process: state tables, loops, request handlers."""
