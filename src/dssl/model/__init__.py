"""The estimator, and embeddings and factors with their ids."""
