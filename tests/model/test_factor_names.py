"""Names of factors on graphs whose reasons, and so the right names, are known."""

from __future__ import annotations

import numpy as np
import pytest

from dssl import DSSL, Graph, from_tables
from dssl.errors import RunError
from dssl.model.factors import Factors


def market(*, directed: bool = True, labels: bool = False, kinds: bool = False) -> tuple[Graph, np.ndarray]:
    """Banks pay buyers (reason 0), buyers pay sellers (reason 1); a flag shows the part of each node."""
    draw = np.random.default_rng(0)
    part = np.repeat([0, 1, 2], [20, 100, 60])  # bank, buyer, seller
    source = np.concatenate([draw.integers(0, 20, 300), draw.integers(20, 120, 300)])
    target = np.concatenate([draw.integers(20, 120, 300), draw.integers(120, 180, 300)])
    x = np.hstack([np.eye(3)[part], np.ones((180, 1))])
    graph = Graph.from_edges(
        source,
        target,
        x=x,
        feature_names=["bank", "buyer", "seller", "person"],
        y=part if labels else None,
        class_names=["Bank", "Buyer", "Seller"] if labels else None,
        kinds=["loan"] * 300 + ["purchase"] * 300 if kinds else None,
        directed=directed,
        name="market",
    )
    reason = (part[graph.sources()] + part[graph.indices] > 1).astype(int)
    return graph, reason


def factors_of(graph: Graph, reason: np.ndarray) -> Factors:
    q = np.eye(3, dtype=np.float32)[reason] * 0.8 + 0.2 / 3
    nodes = np.zeros((graph.num_nodes, 3), np.float32)
    return Factors(graph.ids, graph.sources(), graph.indices, q, nodes, graph)


@pytest.mark.parametrize(
    ("with_", "names"),
    [
        ({}, ["bank → buyer", "buyer → seller", "no links"]),
        ({"labels": True}, ["Bank → Buyer", "Buyer → Seller", "no links"]),
        ({"kinds": True}, ["loan: bank → buyer", "purchase: buyer → seller", "no links"]),
    ],
)
def test_planted_reasons_get_their_names(with_: dict[str, bool], names: list[str]) -> None:
    graph, reason = market(**with_)
    found = factors_of(graph, reason).describe()
    assert [each.name for each in found] == names
    assert [each.links for each in found] == [int((reason == 0).sum()), int((reason == 1).sum()), 0]
    assert found[0].certainty == pytest.approx(0.8 + 0.2 / 3)
    assert all(int(a) < 20 <= int(b) < 120 for a, b in found[0].examples) and len(found[0].examples) == 3
    assert str(found[0]).startswith(f"0 · {names[0]} (")


def test_fraction_and_lift_by_hand() -> None:
    graph, reason = market()
    trait = next(t for t in factors_of(graph, reason).describe()[0].traits if t.side == "source" and t.name == "bank")
    assert trait.fraction == 1 and trait.lift == pytest.approx(len(reason) / (reason == 0).sum())
    assert not any(t.name == "person" for each in factors_of(graph, reason).describe() for t in each.traits)


def test_roles_name_factors_without_features() -> None:
    hubs = [(hub, 10 + 30 * hub + leaf) for hub in range(10) for leaf in range(30)]
    rings = [(i, i + 1 if (i - 310) % 3 < 2 else i - 2) for i in range(310, 610)]
    graph = Graph.from_edges(*np.array(hubs + rings).T, directed=True)
    reason = (graph.sources() >= 310).astype(int)
    found = factors_of(graph, reason).describe()
    assert found[0].name.startswith("many out-links → ")
    assert {t.name for t in found[1].traits if t.side == "target"} & {"neighbours that are linked", "many out-links"}


def test_where_nothing_stands_out_this_is_said() -> None:
    draw = np.random.default_rng(0)
    graph = Graph.from_edges(draw.integers(200, size=2000), draw.integers(200, size=2000), directed=True)
    found = factors_of(graph, draw.integers(3, size=graph.num_arcs)).describe()
    assert [each.name for each in found] == ["nothing stands out"] * 3


def test_undirected_links_are_described_by_either_end() -> None:
    graph, reason = market(directed=False)
    names = [each.name for each in factors_of(graph, reason).describe()]
    assert names[0].startswith("between nodes with ") and "→" not in "".join(names)


def test_factors_of_a_model_are_described_and_others_need_their_graph() -> None:
    graph, reason = market(kinds=True)
    model = DSSL(num_factors=2, dim=8, epochs=100).fit(graph)
    names = {each.name for each in model.factors(graph).describe()}
    assert names == {"loan: bank → buyer", "purchase: buyer → seller"}
    bare = factors_of(graph, reason)
    with pytest.raises(RunError, match="pass it"):
        Factors(bare.ids, bare.source, bare.target, bare.links, bare.nodes).describe()


def test_hashed_words_are_no_names() -> None:
    graph, reason = market()
    part = np.asarray(graph.x)[:, :3].argmax(axis=1)
    notes = [f"{('lends', 'buys', 'sells')[at]} since {1900 + number}" for number, at in enumerate(part)]
    table = {"id": graph.ids, "note": notes, "role": [("bank", "buyer", "seller")[at] for at in part]}
    read = from_tables({"source": graph.sources(), "target": graph.indices}, nodes=table, directed=True)
    assert read.encoding is not None
    assert [column.kind for column in read.encoding.columns] == ["text", "category"]
    named = factors_of(read, reason).describe()
    assert [each.name for each in named[:2]] == ["role=bank → role=buyer", "role=buyer → role=seller"]
