"""``num_factors="auto"`` in Python and in a run folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from sklearn.base import clone

from dssl import DSSL
from dssl.config.resolve import resolve
from dssl.data.synthetic import planted_pairs
from dssl.errors import ConfigError
from dssl.graph.link_count import count_groups
from dssl.model.estimator import Embedder
from dssl.model.factor_count import with_count


def test_each_fit_chooses_the_number_and_the_keyword_stays() -> None:
    graph, _ = planted_pairs(nodes=300)
    model = DSSL(num_factors="auto", dim=8, epochs=1).fit(graph)
    count = count_groups(graph)
    assert model.factors(graph).num_factors == count == model.config.method.num_factors
    assert model.get_params()["num_factors"] == "auto" == clone(model).get_params()["num_factors"]
    other, _ = planted_pairs(nodes=300, seed=1)
    other = other.replace(kinds=None)
    assert model.fit(other).factors(other).num_factors == count_groups(other)


def test_taught_kinds_give_the_number() -> None:
    graph, reason = planted_pairs(nodes=200)
    taught = graph.replace(kinds=reason.astype("int32"), kind_names=tuple("abcdef"))
    config = resolve({"num_factors": "auto", "teach": "kinds"})
    assert with_count(config, taught).method.num_factors == 6


def test_a_stored_model_contains_the_number(tmp_path: Path) -> None:
    graph, _ = planted_pairs(nodes=200)
    model = DSSL(num_factors="auto", dim=8, epochs=1).fit(graph)
    model.save(tmp_path / "model")
    loaded = Embedder.load(tmp_path / "model")
    assert loaded.config.method.num_factors == model.config.method.num_factors
    assert (loaded.transform(graph) == model.transform(graph)).all()


@pytest.mark.parametrize("wrong", [0, 1025, "some", 2.5])
def test_other_values_are_refused(wrong: object) -> None:
    with pytest.raises(ConfigError, match="num_factors"):
        DSSL(num_factors=wrong)
