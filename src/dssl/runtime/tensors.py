"""Tensors as files in the safetensors format.

They are written here and not by the library: it copies every tensor, writes under a hidden name of its own that a
killed process leaves behind, and reports a full disk as no `OSError`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dssl.runtime.files import replacing

if TYPE_CHECKING:
    from torch import Tensor

_ALIGNED = 8  # bytes; the header is padded to a multiple


def write_tensors(path: Path, tensors: Mapping[str, Tensor], notes: Mapping[str, str] | None = None) -> None:
    """Write tensors to a file in one step.

    Args:
        path: the file.
        tensors: by name; one that occurs twice is written twice.
        notes: texts that are stored with them.
    """
    import torch

    header: dict[str, Any] = {} if notes is None else {"__metadata__": dict(notes)}
    # Larger types come first, so that all data are aligned.
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    at = 0
    for name in names:
        tensor = tensors[name]
        end = at + tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _DTYPES[str(tensor.dtype)], "shape": list(tensor.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNED)
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            # A copy, since a tensor of one element may have any stride.
            flat = tensors[name].detach().cpu().clone(memory_format=torch.contiguous_format).reshape(-1)
            file.write(flat.view(torch.uint8).numpy().data)


_DTYPES = {
    "torch.float64": "F64",
    "torch.float32": "F32",
    "torch.float16": "F16",
    "torch.bfloat16": "BF16",
    "torch.int64": "I64",
    "torch.int32": "I32",
    "torch.int16": "I16",
    "torch.int8": "I8",
    "torch.uint8": "U8",
    "torch.bool": "BOOL",
}
