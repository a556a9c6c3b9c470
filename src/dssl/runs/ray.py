"""Training on a Ray cluster: what ``torchrun`` does for `dssl fit`, Ray Train does here, with the same worker.

It needs the extra ``dssl[ray]`` on every machine of the cluster.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from dssl.config.schema import Config
from dssl.config.toml import from_toml, to_toml
from dssl.data.load import with_full_paths
from dssl.errors import ConfigError, RunError, require
from dssl.runs import run_folder, workflow


def fit_on_ray(
    config: Config,
    folder: str | Path,
    *,
    num_workers: int,
    use_gpu: bool = False,
    max_failures: int = 0,
    storage: str | None = None,
) -> dict[str, Any]:
    """Train a model in a run folder with several workers of a Ray cluster; return the record of the last epoch.

    The Ray cluster is the one that ``ray.init`` connected to, or else one on this machine. After a failure Ray starts
    the workers again, and they go on from the last checkpoint in the folder.

    Args:
        config: the complete configuration, as `dssl.config.resolve.resolve` makes it. All machines find its files.
        folder: the run folder, on a file system that all machines share.
        num_workers: how many processes share the work.
        use_gpu: give each of them a GPU.
        max_failures: how often the workers are started again.
        storage: where Ray keeps its own notes; by default ``~/ray_results``.
    """
    require("ray", extra="ray")
    from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
    from ray.train.torch import TorchConfig, TorchTrainer

    from dssl.runtime import distributed

    if num_workers < 1:
        raise ConfigError(f"num_workers is {num_workers}, but must be at least 1")
    place = Path(folder).resolve()
    options = config.model_copy(update={"graph": with_full_paths(config.graph)})
    trainer = TorchTrainer(
        work,
        train_loop_config={"config": to_toml(options), "folder": str(place)},
        # Numbers of a few bytes are added up on the CPU also where gradients are not.
        torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if use_gpu else "gloo"),
        scaling_config=ScalingConfig(num_workers=num_workers, use_gpu=use_gpu),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=max_failures), storage_path=storage),
    )
    try:
        trainer.fit()
    except TrainingFailedError as error:
        told = re.findall(r"^dssl\.errors\.\w+: (.+)$", str(error), re.MULTILINE)
        own = [line for line in told if line != distributed.OTHERS]
        if not own:
            raise
        raise RunError(own[0]) from None
    return dict(*run_folder.read_metrics(place)[-1:])


def work(given: dict[str, str]) -> None:
    """Be one of the workers: the process group is Ray's, all else is as under torchrun.

    Args:
        given: ``config`` as TOML, and ``folder``.
    """
    workflow.fit(from_toml(given["config"], "the settings"), Path(given["folder"]))
