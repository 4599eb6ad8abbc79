"""The tables of an audit, declared: columns, units, keys."""
