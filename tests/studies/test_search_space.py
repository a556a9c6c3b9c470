"""The spaces of a search: the paper's grids, valid values, and what is left out."""

from __future__ import annotations

import pytest

from dssl.config.methods import METHODS
from dssl.config.registry import Range
from dssl.config.resolve import resolve
from dssl.config.schema import Config
from dssl.errors import ConfigError
from dssl.studies.search_space import PAPER, SPACES, space


def test_the_paper_s_grids() -> None:
    grid = PAPER
    assert grid["train.learning_rate"] == (0.001, 0.005, 0.01)
    assert grid["encoder.dim"] == (16, 32, 64)
    assert grid["train.weight_decay"] == (5e-4, 1e-4, 5e-6, 1e-6)
    for name in ("prototype_variance", "link_variance", "temperature"):
        assert grid[f"method.{name}"] == (0.2, 0.4, 0.6, 0.8, 1.0)
    assert grid["method.shift_scale"] == (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert grid["method.num_factors"] == (2, 4, 6, 8, 16, 32)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SPACES)
def test_every_value_of_a_space_is_allowed(name: str, method: str) -> None:
    defaults = resolve({"method": method}).model_dump()
    for path, part in SPACES[name](method).items():
        section, _, leaf = path.partition(".")
        if leaf not in defaults[section]:  # the paper's grid contains settings of DSSL
            continue
        flags = {"method": method} if section == "method" else {}
        for value in (part.low, part.high) if isinstance(part, Range) else part:
            assert getattr(getattr(resolve({**flags, path: value}), section), leaf) == value


@pytest.mark.parametrize("method", METHODS)
def test_the_wide_space_contains_the_defaults(method: str) -> None:
    general, own = resolve().model_dump(), resolve({"method": method}).model_dump()
    for path, part in SPACES["wide"](method).items():
        section, _, leaf = path.partition(".")
        value = (own if section == "method" else general)[section][leaf]
        if value is not None:  # otherwise the graph decides
            assert part.low <= value <= part.high if isinstance(part, Range) else value in part, path


def test_what_is_set_or_of_no_use_is_not_varied() -> None:
    found = space("paper", Config(), fixed=["encoder.dim"])
    assert set(PAPER) - set(found) == {"encoder.dim", "method.temperature"}
    assert set(space("paper", resolve({"preset": "paper"}))) == set(PAPER)
    assert "encoder.high_pass" not in space("wide", Config())  # only hops can
    assert "encoder.high_pass" in space("wide", Config(), fixed=["encoder.name"])
    assert "encoder.name" not in space("wide", resolve({"high_pass": True}))
    table = space("wide", resolve({"method": "deepwalk"}))
    assert set(table) == {
        "encoder.dim", "train.epochs", "method.walk_length", "method.window", "method.step_size"
    }  # fmt: skip
    other = space("wide", resolve({"method": "dgi"}))
    assert "encoder.dim" in other
    assert not [path for path in other if path.startswith("method.")]
    assert "method.temperature" not in space("wide", resolve({"method": "graphcl"}))  # infomax has none
    assert "method.temperature" in space("wide", resolve({"method": "gca"}))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", SPACES)
def test_every_method_has_something_to_search_for(method: str, name: str) -> None:
    found = space(name, resolve({"method": method}))
    assert "encoder.dim" in found


def test_names_and_settings_that_leave_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="unknown space 'papr', did you mean 'paper'"):
        space("papr", Config())
    with pytest.raises(ConfigError, match="nothing to vary"):
        space("paper", Config(), fixed=list(PAPER))
