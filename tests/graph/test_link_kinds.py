"""Kinds predicted from descriptions of links."""

from __future__ import annotations

import numpy as np
import pytest

from dssl import DSSL
from dssl.errors import GraphError, RunError
from dssl.graph import Graph
from dssl.graph.kinds import given_arcs
from dssl.graph.link_kinds import LinkKinds
from tests.graph.test_link_mixture import stars


def partly(fraction: float = 0.2, *, directed: bool = True) -> tuple[Graph, np.ndarray]:
    """The graph of stars and triangles, with the kind of some links, and the true kind of all."""
    graph, reason = stars()
    known = np.random.default_rng(1).random(graph.num_arcs) < fraction
    kinds = np.where(known, reason, -1).astype(np.int32)
    graph = graph.replace(kinds=kinds, kind_names=("star", "triangle"))
    if directed:
        return graph, reason
    both = graph.undirected()
    full = graph.replace(kinds=reason.astype(np.int32)).undirected()
    return both, full.kinds[full.sources() < full.indices]


@pytest.mark.parametrize("directed", [True, False])
def test_unknown_kinds_are_predicted_and_known_ones_kept(directed: bool) -> None:
    graph, reason = partly(directed=directed)
    found = LinkKinds(graph, 3)
    assert 0 < found.known.sum() < 0.5 * len(reason)
    np.testing.assert_array_equal(found.posteriors[found.known], np.eye(3)[reason[found.known]])
    assert (found.posteriors.argmax(axis=1) == reason).mean() > 0.98
    np.testing.assert_allclose(found.posteriors.sum(axis=1), 1, atol=1e-5)
    assert not found.posteriors[:, 2].any()


def test_what_cannot_be_taught_is_refused() -> None:
    graph, _ = partly()
    with pytest.raises(GraphError, match="2 kinds of links, but there are 1 factors; set num_factors to 2 or more"):
        LinkKinds(graph, 1)
    with pytest.raises(GraphError, match="1 kind of links is known; teaching needs two"):
        LinkKinds(graph.replace(kinds=np.minimum(graph.kinds, 0)), 3)
    with pytest.raises(GraphError, match="no kinds of links to teach; read them with kind_column"):
        LinkKinds(graph.replace(kinds=None), 3)


def test_taught_factors_are_the_kinds_and_untaught_ones_ignore_them() -> None:
    graph, reason = partly()
    taught = DSSL(num_factors=2, dim=16, epochs=60, teach="kinds").fit(graph).factors(graph)
    forward = given_arcs(graph, taught.source, taught.target)[0] >= 0
    assert (taught.links[forward].argmax(axis=1) == reason).mean() > 0.9
    plain = [DSSL(num_factors=2, dim=8, epochs=2).fit(g).factors(g).links for g in (graph, graph.replace(kinds=None))]
    np.testing.assert_array_equal(*plain)
    table = taught.kinds_table()
    assert table.num_rows == graph.num_arcs
    kinds = np.array([("star", "triangle").index(kind) for kind in table["kind"].to_pylist()])
    known = table["known"].to_numpy()
    np.testing.assert_array_equal(known, graph.kinds >= 0)
    np.testing.assert_array_equal(kinds[known], graph.kinds[known])
    assert (table["probability"].to_numpy()[known] == 1).all()
    assert (kinds == reason).mean() > 0.9


def test_a_kind_of_new_edges_that_was_not_taught_is_refused_in_the_table_of_kinds() -> None:
    graph, _ = partly()
    model = DSSL(num_factors=2, dim=8, epochs=2, teach="kinds").fit(graph)
    kinds = graph.kinds.copy()
    kinds[0] = 2
    grown = graph.replace(kinds=kinds, kind_names=("star", "triangle", "new"))
    factors = model.factors(grown)
    assert factors.links.shape[1] == 2
    with pytest.raises(
        RunError, match="3 kinds of links, but the 2 factors were taught fewer; leave out the kinds of new"
    ):
        factors.kinds_table()


def test_known_kinds_are_targets_without_smoothing() -> None:
    import torch

    from dssl.methods.dssl.teacher import Teacher
    from dssl.nn.batches import full_batch
    from dssl.runtime.scale import IN_MEMORY

    graph, _ = partly(1.1)
    teacher = Teacher(2, "kinds")
    teacher.prepare(graph, graph, None, seed=0, scale=IN_MEMORY)
    assert graph.kinds is not None
    sure = 20 * torch.eye(2)[graph.kinds.tolist()]
    batch = full_batch(graph.replace(x=np.eye(graph.num_nodes, 3, dtype=np.float32)), torch.device("cpu"))
    assert float(teacher.loss(batch, lambda _start, _end: sure)) < 1e-6


@pytest.mark.parametrize("directed", [True, False])
def test_context_is_the_sum_up_to_one_over_the_other_links_of_both_ends(directed: bool) -> None:
    graph, _ = partly(directed=directed)
    found = LinkKinds(graph, 3)
    start, end = found.links.ends(np.arange(len(found.links)))
    for link in (0, 7, len(end) - 1):
        contexts = found.context(np.array([link]))
        for reading, ends in enumerate([(start[link], end[link]), (end[link], start[link])][: 1 if directed else 2]):
            wanted = []
            for node in ends:
                sums = np.zeros((2, 3))
                for other in set(range(len(end))) - {link}:
                    sums[0] += found.posteriors[other] * (start[other] == node)
                    sums[1] += found.posteriors[other] * (end[other] == node)
                wanted += list(np.minimum(sums, 1).reshape(-1) if directed else np.minimum(sums.sum(axis=0), 1))
            np.testing.assert_allclose(contexts[reading][0], wanted, atol=1e-3)


def test_context_finds_kinds_that_descriptions_do_not_show() -> None:
    """Chains whose links alternate between two kinds; features are noise."""
    start = np.arange(600)
    graph = Graph.from_edges(start, start + 1, directed=True, x=np.random.default_rng(0).normal(size=(601, 8)))
    reason = start % 2
    shown = np.random.default_rng(1).random(600) < 0.5
    graph = graph.replace(kinds=np.where(shown, reason, -1).astype(np.int32), kind_names=("even", "odd"))
    found = LinkKinds(graph, 2).posteriors.argmax(axis=1)
    assert (found == reason)[~shown].mean() > 0.7


def test_links_of_rare_kinds_count_for_more() -> None:
    """The loss is a mean weighted by the root of one over the fraction of the kind."""
    import torch

    from dssl.methods.dssl.teacher import Teacher
    from dssl.nn.batches import full_batch
    from dssl.runtime.scale import IN_MEMORY

    graph, _ = partly(1.1)
    assert graph.kinds is not None
    rare = np.where(np.arange(graph.num_arcs) % 9 == 0, 1, 0).astype(np.int32)
    graph = graph.replace(kinds=rare)
    teacher = Teacher(2, "kinds")
    teacher.prepare(graph, graph, None, seed=0, scale=IN_MEMORY)
    logits = torch.randn(graph.num_arcs, 2, generator=torch.Generator().manual_seed(0))
    batch = full_batch(graph.replace(x=np.eye(graph.num_nodes, 3, dtype=np.float32)), torch.device("cpu"))
    found = float(teacher.loss(batch, lambda _start, _end: logits))
    weight = [np.mean(rare == kind) ** -0.5 for kind in rare]
    losses = [-float(torch.log_softmax(row, 0)[kind]) for row, kind in zip(logits, rare.tolist(), strict=True)]
    assert found == pytest.approx(np.average(losses, weights=weight), rel=1e-5)
