"""One HTML file about a run."""
