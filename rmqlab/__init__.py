"""A RocketMQ 4.9 master/slave cluster on a laptop: real processes, real protocols, real files, real failures."""
