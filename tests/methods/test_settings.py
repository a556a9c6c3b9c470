"""Every setting of every method changes the result: one without effect fails, and so does one that is not listed."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from dssl.config.methods import METHODS
from dssl.graph import Graph
from dssl.model.estimator import Embedder

# For each setting another value than the default, and the settings under which it matters.
WALKS: dict[str, Any] = {"walk_length": 3, "window": 1, "negatives": 9, "step_size": 0.2}
VIEWS: dict[str, Any] = dict.fromkeys(("link_drop_1", "link_drop_2", "feature_mask_1", "feature_mask_2"), 0.9)
OTHER: dict[str, dict[str, Any]] = {
    "dssl": {
        "num_factors": 3,
        "shift_scale": 0.1,
        "prototype_variance": 0.9,
        "link_variance": 0.9,
        "momentum": 0.2,
        "estimator": "gumbel",
        "temperature": (3.0, {"estimator": "gumbel"}),
        "inference": "uniform",
        "head": "product",
        "head_scale": False,
        "local_weight": 0.1,
        "global_weight": 9.0,
        "entropy_weight": 2.0,
        "balance_weight": 2.0,
        "prototype_update": False,
        "prototype_pass": True,
        "center": False,
        "projector": False,
        "reconstruction_weight": 0.5,
        "reconstruction_dim": 2,
        "link_reconstruction_weight": 0.5,
        "link_reconstruction_dim": 2,
        "distillation_weight": 0.1,
        "teach": "kinds",
    },
    "dgi": {},
    "gae": {"pairs": 20},
    "vgae": {"pairs": 20, "divergence_weight": 9.0},
    "graphcl": {
        "objective": "nt-xent",
        "first_view": "node",
        "second_view": "subgraph",
        "strength": 0.9,
        "temperature": (0.1, {"objective": "nt-xent"}),
        "anchors": (7, {"objective": "nt-xent"}),
    },
    "mvgrl": {
        "diffusion": "heat",
        "teleport": 0.8,
        "heat_time": (0.5, {"diffusion": "heat"}),
        "neighbours": 2,
        "precision": 0.2,
        "threshold": 0.05,
        "column_scale": True,
        "loop_weight": 1.0,
    },
    "bgrl": {"momentum": 0.1, "predictor_dim": 5, "norm_momentum": 0.3, **VIEWS},
    "gca": {
        "centrality": "pagerank",
        "temperature": 2.0,
        "projector_dim": 5,
        "most_dropped": 0.1,
        "anchors": 7,
        **VIEWS,
    },
    "sage": {"walk_length": 1, "negatives": 2},
    "cca-ssg": {"decorrelation_weight": 1.0, "link_drop": 0.9, "feature_mask": 0.6},
    "graphacl": {
        "momentum": 0.1,
        "temperature": 2.0,
        "predictor_layers": 2,
        "own_neighbour": False,
        "negatives": 5,
        "pairs": 20,
    },
    "graphmae": {"mask_rate": 0.9, "replace_rate": 0.9, "exponent": 1.0, "link_drop": 0.9, "decoder": "gcn"},
    "polygcl": {
        "degree": 2,
        "feature_dropout": 0.9,
        "filtered_dropout": 0.5,
        "normalise": True,
        "activation": "prelu",
        "filter_rate": 0.1,
    },
    "greet": {
        "hops": 1,
        "high_pass_weight": 0.1,
        "temperature": 2.0,
        "positives": 1,
        "projector_dim": 5,
        "projector_layers": 1,
        "low_margin": 0.1,
        "high_margin": 0.1,
        "encoding_dim": 2,
        "discriminator_dim": 5,
        "contrast_steps": 1,
        "anchors": 7,
        "pairs": 20,
        **VIEWS,
    },
    "deepwalk": WALKS,
    "node2vec": {**WALKS, "return_weight": 9.0, "away_weight": 9.0},
    "line": {"negatives": 9, "step_size": 0.2},
    "struc2vec": {**WALKS, "rings": 1, "stay": 0.9},
}


@cache
def graph() -> Graph:
    """Three blocks, of which links and features tell something."""
    draw = np.random.default_rng(0)
    block = np.arange(45) % 3
    start, end = np.nonzero(np.triu(draw.random((45, 45)) < np.where(block[:, None] == block, 0.4, 0.03), 1))
    x = np.abs(draw.normal(size=(45, 6))) + np.eye(6)[block]
    return Graph.from_edges(start, end, num_nodes=45, x=x, kinds=np.where(block[start] == block[end], "in", "out"))


@cache
def vectors(method: str, settings: tuple[tuple[str, Any], ...] = ()) -> bytes:
    small = {"dim": 8, "hidden_dim": 8, "epochs": 3, "seed": 1, "learning_rate": 0.02}
    return Embedder(method=method, settings=dict(settings), **small).fit_transform(graph()).tobytes()


def test_the_table_has_every_setting_of_every_method() -> None:
    """A new setting needs a line in OTHER: another value than its default, and where it matters."""
    assert {name: set(values) for name, values in OTHER.items()} == {
        name: set(section.model_fields) - {"name"} for name, section in METHODS.items()
    }


@pytest.mark.parametrize(("method", "setting"), [(name, setting) for name, row in OTHER.items() for setting in row])
def test_a_setting_changes_the_vectors(method: str, setting: str) -> None:
    value, where = given if isinstance(given := OTHER[method][setting], tuple) else (given, {})
    assert value != METHODS[method].model_fields[setting].default
    around = tuple(where.items())
    assert vectors(method, (*around, (setting, value))) != vectors(method, around)
