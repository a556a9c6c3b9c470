"""With DSSL_CHECK_BOUNDS=1 a wrong index in a compiled loop is an error, not a crash."""

from __future__ import annotations

import os
import subprocess
import sys

CODE = """
import numpy as np
from dssl.kernels.csr import sum_neighbours

indptr, indices = np.array([0, 1, 2]), np.array([1, 9], np.int32)
try:
    sum_neighbours(indptr, indices, None, np.ones((2, 3), np.float32))
except IndexError:
    print("refused")
"""


def test_a_wrong_index_is_refused_in_the_debug_mode() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "DSSL_CHECK_BOUNDS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["refused"]
