"""Training on a Ray cluster."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from dssl.config.resolve import resolve
from dssl.errors import MissingExtraError, RunError
from dssl.runs import run_folder, workflow
from dssl.runs.ray import fit_on_ray

SETTINGS = {
    "source": "synthetic:h=0.3,nodes=300,degree=6,features=20",
    "dim": 8,
    "hidden_dim": 8,
    "num_factors": 3,
    "encoder": "gcn",
    "features": "raw",
    "epochs": 6,
    "batch_size": 100,
    "fanout": [5, 5],
}


def test_without_ray_one_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dssl\[ray\]'"):
        fit_on_ray(resolve(SETTINGS), tmp_path / "r", num_workers=2)


@pytest.mark.slow
@pytest.mark.distributed
@pytest.mark.filterwarnings("ignore")  # Ray warns of what it does itself
def test_two_workers_have_the_loss_curve_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install dssl[ray]")
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    config = resolve(SETTINGS)
    workflow.fit(config, tmp_path / "one")
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        record = fit_on_ray(config, tmp_path / "two", num_workers=2, storage=str(tmp_path / "notes"))
        with pytest.raises(RunError, match="holds a finished run") as error:
            fit_on_ray(config, tmp_path / "two", num_workers=2, storage=str(tmp_path / "notes"))
    finally:
        ray.shutdown()
    assert "\n" not in str(error.value)
    one, two = (run_folder.read_metrics(tmp_path / name) for name in ("one", "two"))
    np.testing.assert_allclose([line["loss"] for line in two], [line["loss"] for line in one], rtol=1e-3)
    assert record == two[-1]
    assert run_folder.read_embeddings(tmp_path / "two").values.shape == (300, 8)
