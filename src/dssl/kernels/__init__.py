"""Compiled loops (Numba). Imports nothing else of the package."""

from dssl.kernels.code_cache import ensure

ensure()
