"""Tables of a broker: topics, groups, offsets, clients, locks."""
