"""Fitted models as files: settings, weights and feature columns, without pickles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from dssl.config.schema import Config
from dssl.config.toml import from_toml, to_toml
from dssl.errors import DsslError, RunError
from dssl.graph.preparation import Inputs
from dssl.runtime import files
from dssl.runtime.tensors import write_tensors

if TYPE_CHECKING:
    from torch import Tensor, nn

    from dssl.model.build import Parts

CONFIG, WEIGHTS, FEATURES = "config.toml", "weights.safetensors", "features.json"
EMBEDDINGS = "embeddings.parquet"
_JOINT = "joint."  # prefix of the tensors of input and projection


def save_parts(folder: Path, config: Config, parts: Parts) -> None:
    """Write the settings, weights and feature columns of a fitted model to a folder."""
    import torch

    tensors: dict[str, Tensor] = dict(parts.module.state_dict())
    if parts.joint is not None:
        tensors |= {f"{_JOINT}{name}": torch.from_numpy(value) for name, value in parts.joint.arrays().items()}
    files.write_text(folder / CONFIG, to_toml(config))
    joint = {} if parts.joint is None else parts.joint.to_json()
    files.write_json(folder / FEATURES, parts.inputs.to_json() | joint)
    write_tensors(folder / WEIGHTS, tensors)


def read_config(folder: Path) -> Config:
    """Read the settings of a stored model."""
    path = folder / CONFIG
    return from_toml(files.read_text(path, "give a folder that `dssl fit` wrote"), str(path))


def read_inputs(folder: Path) -> Inputs:
    """Read the feature columns of a stored model."""
    path = folder / FEATURES
    try:
        return Inputs.from_json(json.loads(files.read_text(path, "fit the model again")))
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, DsslError):
            raise
        raise RunError(f"{path} is damaged ({error!r:.80}); fit the model again") from None


def read_parts(folder: Path, config: Config, module: nn.Module | None) -> Parts:
    """Build the parts of a stored model and read their weights.

    Args:
        folder: the folder.
        config: the settings of the model.
        module: the user's encoder, if the model has one.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    from dssl import train
    from dssl.model.build import Parts, build_method
    from dssl.model.joint import Joint

    inputs = read_inputs(folder)
    path, joint, in_dim = folder / WEIGHTS, None, inputs.num_features
    try:
        tensors = load_file(path)
        own = [name for name in tensors if name.startswith(_JOINT)]
        arrays = {name.removeprefix(_JOINT): tensors.pop(name).numpy() for name in own}
        if config.graph.features == "topics":
            described = json.loads((folder / FEATURES).read_text(encoding="utf-8"))
            joint = Joint.from_arrays(arrays, described, dim=config.encoder.dim)
            in_dim = joint.parts.closed.axes.shape[1]
        method = build_method(config, module, in_dim=in_dim)
        method.load_state_dict(tensors)
    except (SafetensorError, RuntimeError, OSError, KeyError, TypeError, ValueError):
        reason = "is damaged or of another model" if path.exists() else "is missing"
        raise RunError(f"{path} {reason}; fit the model again") from None
    return Parts(method.to(train.device(config.train.device)), inputs, joint)
