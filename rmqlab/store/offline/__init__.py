"""Files of a store that no broker has open, read and checked."""
