"""Many trainings: comparison, search, the paper's tables and figures."""
