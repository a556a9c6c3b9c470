"""Probe, splits, baselines, link prediction, projection."""
