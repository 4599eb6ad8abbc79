"""The data source `rmqlab-journal`: the events of a run."""
