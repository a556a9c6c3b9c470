"""Compiled loops (Numba). Imports nothing else of the package."""
