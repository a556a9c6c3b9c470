"""Batches, operators, encoders, heads, losses and views."""
