"""Runs a cluster and its supervisor on a simulated machine (`rmqlab.simulation`)."""
