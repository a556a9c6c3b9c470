"""A local web page to explore a run."""
