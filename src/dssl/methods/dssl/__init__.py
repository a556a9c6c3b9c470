"""Decoupled self-supervised learning (Xiao et al., NeurIPS 2022)."""
