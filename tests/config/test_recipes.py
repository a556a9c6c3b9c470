"""Recipes: each covers the paper's graphs, says where its numbers come from, and is what validation chose."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import recipes as benchmark

from dssl.config.methods import METHODS
from dssl.config.recipes import read_recipe, recipes
from dssl.config.resolve import resolve
from dssl.studies.paper import numbers
from dssl.studies.paper.plans import PLANETOID
from dssl.studies.records import records as read_records

ROOT = Path(__file__).parents[2]
OTHERS = [name for name in METHODS if name != "dssl"]


@pytest.mark.parametrize("method", OTHERS)
def test_each_method_has_a_recipe_for_each_graph_of_the_paper(method: str) -> None:
    assert method in recipes()
    recipe = read_recipe(method)
    assert {*numbers.GRAPHS, *(f"{graph}-public" for graph in PLANETOID)} <= set(recipe.datasets)
    assert recipe.header.source
    for name in recipe.names:
        config = resolve({"recipe": f"{method}:{name}"})
        assert config.method.name == method
        assert config.graph.features == "raw"
        assert (config.encoder.dim > 64) == name.endswith("-public")


@pytest.mark.parametrize("method", OTHERS)
def test_the_paper_s_numbers_are_those_of_its_table(method: str) -> None:
    printed = {graph: mean for graph, (mean, _) in numbers.CLASSIFICATION.get(method, {}).items()}
    assert read_recipe(method).header.paper == printed


def test_published_numbers_are_of_the_public_splits() -> None:
    assert read_recipe("dgi").header.published == {"cora": 82.3, "citeseer": 71.8, "pubmed": 76.8}
    for method in OTHERS:
        assert set(read_recipe(method).header.published) <= set(PLANETOID)


def test_recipes_are_what_validation_chose() -> None:
    records = read_records(ROOT / "results" / "recipes")
    assert {*benchmark.CANDIDATES, *benchmark.AUTHORS} == set(OTHERS)
    for method in benchmark.CANDIDATES:
        recipe = read_recipe(method)
        assert {*numbers.GRAPHS, *(f"{graph}-public" for graph in PLANETOID)} == set(recipe.datasets)
        for graph, sections in recipe.datasets.items():
            assert sections == benchmark.expected(method, graph, records), (method, graph)


def test_recipes_of_the_authors_differ_from_graph_to_graph() -> None:
    for method in benchmark.AUTHORS:
        recipe = read_recipe(method)
        assert "settings: github.com/" in recipe.header.source
        assert recipe.datasets["cora"] != recipe.datasets["citeseer"]
    assert resolve({"recipe": "polygcl:texas"}).graph.row_scale
    assert resolve({"recipe": "greet:cora"}).method.model_dump()["feature_mask_1"] == 0.8
    assert resolve({"recipe": "graphmae:pubmed"}).method.model_dump()["mask_rate"] == 0.75


def test_the_table_is_that_of_the_records() -> None:
    records = read_records(ROOT / "results" / "recipes")
    assert (ROOT / "results" / "recipes.md").read_text() == benchmark.table(records)
    tried = {(record.graph, record.row, record.protocol, str(record.settings)) for record in records}
    methods = list(benchmark.CANDIDATES)
    every = [*benchmark.jobs(methods, benchmark.GRAPHS), *benchmark.public_jobs(methods, benchmark.GRAPHS)]
    assert tried == {(job.graph, job.row, job.protocol, str(job.settings)) for job in every}
