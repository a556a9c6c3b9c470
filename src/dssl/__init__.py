"""Node embeddings without labels, for any graph."""
