"""Tensors as files in the safetensors format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from dssl.runtime.files import replacing

if TYPE_CHECKING:
    from torch import Tensor


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> None:
    """Write tensors to a file in one step; a full disk is an `OSError`, as for every other file.

    Args:
        path: the file.
        tensors: by name; copies are written, since a module may contain a tensor twice, which the format rejects.
        notes: texts that are stored with them.
    """
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    copies = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    with replacing(path) as temporary:
        try:
            save_file(copies, temporary, None if notes is None else dict(notes))
        except SafetensorError as error:
            number = re.search(r"os error (\d+)", str(error))
            if number is None:
                raise
            raise OSError(int(number[1]), str(error)) from None
