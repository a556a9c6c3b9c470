"""The run folder, and the work of each command on it."""
