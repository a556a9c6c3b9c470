"""Training on a Ray cluster: Ray Train starts the workers, as ``torchrun`` does for `dssl fit`.

It needs the extra ``dssl[ray]`` on every machine of the cluster.
"""

from __future__ import annotations

import re
from pathlib import Path

from dssl.config.schema import Config
from dssl.config.toml import from_toml, to_toml
from dssl.data.load import with_full_paths
from dssl.errors import ConfigError, RunError, require
from dssl.runs import run_folder, workflow
from dssl.runs.records import Record


def fit_on_ray(
    config: Config,
    folder: str | Path,
    *,
    num_workers: int,
    use_gpu: bool = False,
    max_failures: int = 0,
    storage: str | None = None,
) -> Record:
    """Train a model in a run folder with several workers of a Ray cluster; return the record of the last epoch.

    The Ray cluster is the one that ``ray.init`` connected to, or one on this machine. After a failure Ray restarts
    the workers, and they resume from the last checkpoint in the folder.

    Args:
        config: the complete configuration, as `dssl.config.resolve.resolve` returns it. Its files are on all machines.
        folder: the run folder, on a file system that all machines share.
        num_workers: number of processes that share the work.
        use_gpu: whether each process gets a GPU.
        max_failures: number of restarts of the workers.
        storage: folder for Ray's own files; by default ``~/ray_results``.
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
        # Counts are summed on the CPU, also where gradients are summed on the GPU.
        torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if use_gpu else "gloo"),
        scaling_config=ScalingConfig(num_workers=num_workers, use_gpu=use_gpu),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=max_failures), storage_path=storage),
    )
    try:
        trainer.fit()
    except TrainingFailedError as error:
        lines = re.findall(r"^dssl\.errors\.\w+: (.+)$", str(error), re.MULTILINE)
        own = [line for line in lines if line != distributed.OTHERS]
        if not own:
            raise
        raise RunError(own[0]) from None
    return dict(*run_folder.read_metrics(place)[-1:])


def work(given: dict[str, str]) -> None:
    """Train as one of the workers, in Ray's process group.

    Args:
        given: ``config`` as TOML, and ``folder``.
    """
    workflow.fit(from_toml(given["config"], "the settings"), Path(given["folder"]))
