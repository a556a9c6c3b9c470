"""DSSL against literal loops over its equations, and the invariants of its training."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dssl import rng
from dssl.graph import Graph
from dssl.graph.adjacency import degrees
from dssl.graph.link_mixture import LinkGroups
from dssl.methods.dssl import posterior
from dssl.methods.dssl.model import DSSLModel
from dssl.methods.dssl.networks import Links, Projection
from dssl.methods.dssl.objective import local_term
from dssl.nn import encoders
from dssl.nn.batches import Batch, Sampling, full_batch, sampled_batch
from dssl.runtime.scale import BY_BLOCKS, IN_MEMORY
from dssl.train import train
from tests.graphs import ALL_NEIGHBOURS, CPU, random_graph
from tests.methods import formulas

PLAIN: dict[str, Any] = {
    "num_factors": 3,
    "shift_scale": 0.7,
    "prototype_variance": 0.3,
    "link_variance": 0.4,
    "momentum": 0.9,
    "estimator": "exact",
    "temperature": 0.5,
    "inference": "amortised",
    "head": "concat",
    "head_scale": True,
    "local_weight": 1.0,
    "global_weight": 1.0,
    "entropy_weight": 1.0,
    "balance_weight": 0.0,
    "prototype_update": True,
    "prototype_pass": False,
    "center": False,
    "projector": False,
    "reconstruction_weight": 0.0,
    "reconstruction_dim": 4,
    "link_reconstruction_weight": 0.0,
    "link_reconstruction_dim": 4,
    "distillation_weight": 0.0,
}


def model(*, encoder: str = "gcn", seed: int = 0, **changes: Any) -> DSSLModel:
    with rng.seeded(seed, "init"):
        made = encoders.build(encoder, in_dim=7, dim=5, hidden_dim=6, layers=2, dropout=0.0, batch_norm=False)
        return DSSLModel(made, **PLAIN | changes)


def apart(**changes: Any) -> DSSLModel:
    """A model whose target is no copy of its online networks, and none of whose parameters is zero."""
    method = model(**changes).train()
    formulas.moved(method)
    return method


def parts(method: DSSLModel, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Vectors, prototypes and predictions of each factor, each computed from its definition."""
    encoder, projection = method.target
    v, z = unit(method.projection, method.encoder(batch)), unit(projection, encoder(batch)).detach()
    mu = torch.stack([row / row.norm() for row in method.prototypes])
    return v, z, mu, torch.stack([torch.stack([predicted(method, row, k) for k in range(3)]) for row in v])


def unit(projection: Projection, h: Tensor) -> Tensor:
    """Projected rows over their lengths, if centred less their mean, and after training less the running mean."""
    rows = projection.projector(h)
    if projection.center is not None:
        rows = rows - (sum(rows) / len(rows) if projection.training else projection.center.mean)
    return torch.stack([row / row.norm() for row in rows])


def predicted(method: DSSLModel, v: Tensor, k: int) -> Tensor:
    """v + β g(k)."""
    return v + method.beta * method.shift_network(F.one_hot(torch.tensor(k), method.num_factors).float())


def literal_posterior(method: DSSLModel, v: Tensor, z: Tensor, *, head_scale: bool = True) -> Tensor:
    """Eq. 6 for one link, shape ``(K,)``."""
    scale = (5.0 if method.head.product else 5.0**0.5) if head_scale else 1.0
    if method.head.product:
        hidden = method.head.first(scale * v * z)
    else:
        hidden = method.head.first(scale * v) + method.head.second(scale * z)
    return torch.softmax(method.head.out(torch.relu(hidden)) + method.head.out_bias, dim=0)


def literal_loss(method: DSSLModel, graph: Graph, batch: Batch, *, weight: float, head_scale: bool = True) -> Tensor:
    """Eq. 5, link by link and factor by factor, a mean over the nodes that have neighbours."""
    v, z, mu, p_neighbour = parts(method, batch)
    total, active = torch.zeros(()), 0
    for i in range(graph.num_nodes):
        neighbours = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        if not len(neighbours):
            continue
        active += 1
        scores = [torch.exp(v[i] @ mu[k] / method.prototype_variance) for k in range(3)]
        p = [score / sum(scores) for score in scores]  # Eq. 3
        for j in neighbours:
            q = literal_posterior(method, v[i], z[j], head_scale=head_scale)
            for k in range(3):
                distance = (p_neighbour[i, k] - z[j]).square().sum()
                total = total + q[k] / len(neighbours) * (
                    distance - method.link_variance * torch.log(p[k]) + weight * torch.log(q[k])
                )
    return total / active


@pytest.mark.parametrize("head", ["concat", "product"])
@pytest.mark.parametrize("encoder", ["gcn", "hops"])
@pytest.mark.parametrize("changes", [{}, {"head_scale": False}, {"projector": True, "center": True}], ids=str)
def test_loss_equals_a_literal_loop_in_value_and_gradient(encoder: str, head: str, changes: dict[str, Any]) -> None:
    graph = random_graph(nodes=12)
    method = apart(encoder=encoder, head=head, **changes)
    batch = full_batch(graph, CPU)
    trained = [parameter for parameter in method.parameters() if parameter.requires_grad]
    ours = method(batch)
    theirs = literal_loss(method, graph, batch, weight=1.0, head_scale=changes.get("head_scale", True))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    for first, second in zip(torch.autograd.grad(ours, trained), torch.autograd.grad(theirs, trained), strict=True):
        torch.testing.assert_close(first, second, atol=2e-5, rtol=1e-3)


def elbo_and_likelihood(method: DSSLModel, graph: Graph, batch: Batch, q: np.ndarray) -> tuple[float, float]:
    """Eq. 4 and Eq. 1, up to the constant of the Gaussian, with the variance of A.2 (σ₂² = 2 × the true one)."""
    v, z, mu, p_neighbour = (tensor.detach() for tensor in parts(method, batch))
    bound = likelihood = 0.0
    arc = 0
    for i in range(graph.num_nodes):
        neighbours = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        log_p = torch.log_softmax(v[i] @ mu.T / method.prototype_variance, dim=0)
        for j in neighbours:
            log_n = -(p_neighbour[i] - z[j]).square().sum(dim=1) / method.link_variance
            joint = log_n + log_p
            likelihood += float(torch.logsumexp(joint, dim=0)) / len(neighbours)
            own = torch.from_numpy(q[arc])
            bound += float((own * (joint - own.clamp_min(1e-30).log())).sum()) / len(neighbours)
            arc += 1
    return bound, likelihood


def closed_form(method: DSSLModel, graph: Graph, batch: Batch) -> np.ndarray:
    """The true posterior of each link: p(k | v_i) N(z_j; v_i + β g(k), σ₂²), up to a constant."""
    v, z, mu, p_neighbour = (tensor.detach() for tensor in parts(method, batch))
    log_p = torch.log_softmax(v @ mu.T / method.prototype_variance, dim=1)
    start, end, _ = posterior.rows(batch.links, CPU)
    squares = (p_neighbour[start] - z[end, None]).square().sum(dim=2)
    return torch.softmax(log_p[start] - squares / method.link_variance, dim=1).numpy()


def test_the_bound_is_below_the_likelihood_and_equal_at_the_closed_form() -> None:
    graph = random_graph(nodes=12)
    batch = full_batch(graph, CPU)
    method = model().eval()
    bound, likelihood = elbo_and_likelihood(method, graph, batch, method.factors(graph)[0])
    assert bound < likelihood - 1e-3
    tight, same = elbo_and_likelihood(method, graph, batch, closed_form(method, graph, batch))
    assert same == pytest.approx(likelihood, rel=1e-5)
    assert tight == pytest.approx(likelihood, rel=1e-4)


def test_gumbel_is_eq_7_on_the_drawn_factors() -> None:
    graph = random_graph(nodes=12)
    batch = full_batch(graph, CPU)
    method = apart(estimator="gumbel")
    v, z, mu, _ = parts(method, batch)
    start, end, weights = posterior.rows(batch.links, CPU)
    logits = method.head(v, z, start, end)
    torch.manual_seed(5)
    ours = method(batch)
    torch.manual_seed(5)
    c = F.gumbel_softmax(logits, tau=0.5, hard=True)
    log_p = torch.log_softmax(v @ mu.T / method.prototype_variance, dim=1)
    q = torch.softmax(logits, dim=1)
    total = torch.zeros(())
    for e in range(len(start)):
        i, j = start[e], end[e]
        local = (v[i] + method.beta * method.shift_network(c[e]) - z[j]).square().sum()
        own = local - method.link_variance * (c[e] * log_p[i]).sum() + (q[e] * q[e].log()).sum()
        total = total + weights[e] * own
    wanted = total / (graph.degrees > 0).sum()
    torch.testing.assert_close(ours, wanted, atol=1e-5, rtol=1e-4)
    trained = [parameter for parameter in method.parameters() if parameter.requires_grad]  # gradients straight through
    for first, second in zip(torch.autograd.grad(ours, trained), torch.autograd.grad(wanted, trained), strict=True):
        torch.testing.assert_close(first, second, atol=5e-5, rtol=1e-3)


def test_mean_of_many_gumbel_draws_is_the_exact_expectation() -> None:
    graph = random_graph(nodes=12)
    batch = full_batch(graph, CPU)
    exact, drawn = (model(estimator=name).train() for name in ("exact", "gumbel"))
    with torch.no_grad():
        wanted = float(exact(batch))
        torch.manual_seed(0)
        draws = np.array([float(drawn(batch)) for _ in range(400)])
    assert abs(draws.mean() - wanted) < 4 * draws.std() / 20


def gradients(method: DSSLModel, batch: Batch) -> dict[str, Tensor]:
    """The gradient of the loss, joined by the part of the model that it belongs to."""
    trained = {name: parameter for name, parameter in method.named_parameters() if parameter.requires_grad}
    joined: dict[str, list[Tensor]] = {}
    for name, grad in zip(trained, torch.autograd.grad(method(batch), list(trained.values())), strict=True):
        joined.setdefault(name.split(".")[0], []).append(grad.flatten())
    return {name: torch.cat(grads).double() for name, grads in joined.items()}


def drawn_gradients(method: DSSLModel, graph: Graph) -> dict[str, tuple[Tensor, Tensor]]:
    """Mean and standard error over 2,000 draws: 20 times 100 copies of the graph beside each other."""
    offsets = graph.num_nodes * np.repeat(np.arange(100), graph.num_arcs)
    ends = (np.tile(side, 100) + offsets for side in (graph.sources(), graph.indices))
    copies = Graph.from_edges(*ends, num_nodes=100 * graph.num_nodes, x=np.tile(graph.x, (100, 1)))
    torch.manual_seed(0)
    draws = [gradients(method, full_batch(copies, CPU)) for _ in range(20)]
    stacked = {name: torch.stack([draw[name] for draw in draws]) for name in draws[0]}
    return {name: (values.mean(dim=0), values.std(dim=0) / 20**0.5) for name, values in stacked.items()}


def test_mean_gradient_of_gumbel_draws_is_exact_except_through_the_posterior() -> None:
    """A hard draw is an unbiased sample of k; straight through, the gradient is that of the relaxed draw instead.

    The loss is not linear in the draw, since g(c) is not: the posterior's gradient is biased at any temperature.
    """
    graph = random_graph(nodes=12)
    exact = gradients(model().train(), full_batch(graph, CPU))
    bias = {}
    for temperature in (0.1, 2.0):
        drawn = drawn_gradients(model(estimator="gumbel", temperature=temperature).train(), graph)
        for name in ("prototypes", "shift_network"):
            mean, error = drawn[name]
            assert bool(((mean - exact[name]).abs() <= 5 * error + 1e-6).all()), (name, temperature)
        mean, error = drawn["head"]
        bias[temperature] = float((mean - exact["head"]).norm() / exact["head"].norm())
        assert not bool(((mean - exact["head"]).abs() <= 5 * error + 1e-6).all())
    assert bias[2.0] > 0.25


def test_local_loss_equals_a_loop_for_vectors_of_any_length() -> None:
    graph = random_graph(nodes=12, weighted=True)
    batch = full_batch(graph, CPU)
    made = torch.Generator().manual_seed(0)
    v, z, shifts = (torch.randn(n, 5, generator=made) for n in (12, 12, 3))
    v[3] = 0
    start, end, weights = posterior.rows(batch.links, CPU)
    logits = torch.randn(len(start), 3, generator=made)
    each = torch.softmax(logits, dim=1)
    wanted = sum(
        weights[e] * each[e, k] * (v[start[e]] + shifts[k] - z[end[e]]).square().sum()
        for e in range(len(start))
        for k in range(3)
    )
    q = posterior.from_rows(batch.links, logits)
    torch.testing.assert_close(local_term(Links.of(batch), q, v, z, shifts), wanted)


@pytest.mark.parametrize("directed", [False, True])
def test_link_scores_are_the_marginal_likelihood_of_a_loop(directed: bool) -> None:
    graph = random_graph(nodes=12)
    if directed:
        graph = Graph.from_edges([0, 1, 2, 5], [1, 2, 0, 4], x=graph.x, num_nodes=12, directed=True)
    method = apart(center=True)
    fit(method, graph, epochs=3)
    method.eval()
    v, z, mu, p = (tensor.detach() for tensor in parts(method, full_batch(graph, CPU)))
    pairs = np.array([[0, 1], [1, 0], [3, 3], [11, 4], [7, 2]])

    def one_way(i: int, j: int) -> float:
        prior = torch.softmax(torch.stack([v[i] @ mu[k] / method.prototype_variance for k in range(3)]), dim=0)
        normal = torch.stack([torch.exp(-(p[i, k] - z[j]).square().sum() / method.link_variance) for k in range(3)])
        return math.log(float((prior * normal).sum()))

    wanted = [one_way(i, j) if directed else (one_way(i, j) + one_way(j, i)) / 2 for i, j in pairs.tolist()]
    np.testing.assert_allclose(method.link_scores(graph, pairs), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"local_weight": 0.0}, {"shift_network"}),  # A1: nothing reaches the shifts
        ({"global_weight": 0.0}, {"prototypes"}),  # A2: nothing reaches the prototypes
        ({"shift_scale": 0.0}, {"shift_network"}),  # A4
        ({"inference": "uniform"}, {"head"}),  # A5: nothing reaches the inference network
    ],
)
def test_ablations_cut_what_they_name(change: dict[str, Any], same: set[str]) -> None:
    graph = random_graph()
    method = model(**change).train()
    method(full_batch(graph, CPU)).backward()
    for name, parameter in method.named_parameters():
        if parameter.requires_grad:
            untouched = parameter.grad is None or float(parameter.grad.abs().max()) == 0
            assert untouched == (name.split(".")[0] in same), name


def test_without_entropy_the_weight_is_the_difference() -> None:
    graph = random_graph()
    batch = full_batch(graph, CPU)
    whole, without = model().train(), model(entropy_weight=0.0).train()
    difference = float((without(batch) - whole(batch)).detach())
    assert difference == pytest.approx(whole.after_epoch()["entropy"], rel=1e-4)


@pytest.mark.parametrize("head", ["concat", "product"])
def test_balance_subtracts_the_entropy_of_the_mean_posterior_in_value_and_gradient(head: str) -> None:
    graph = random_graph(nodes=12)
    batch = full_batch(graph, CPU)
    method = apart(head=head, balance_weight=0.5, local_weight=0.0, global_weight=0.0, entropy_weight=0.0)
    ours = method(batch)
    v, z, _, _ = parts(method, batch)
    means = []
    for i in range(graph.num_nodes):
        neighbours = graph.indices[graph.indptr[i] : graph.indptr[i + 1]]
        if len(neighbours):
            means.append(sum(literal_posterior(method, v[i], z[j]) for j in neighbours) / len(neighbours))
    usage = sum(means) / len(means)
    theirs = 0.5 * sum(share * torch.log(share) for share in usage)
    torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-5)
    trained = [*method.encoder.parameters(), *method.head.parameters()]
    for first, second in zip(torch.autograd.grad(ours, trained), torch.autograd.grad(theirs, trained), strict=True):
        torch.testing.assert_close(first, second, atol=1e-6, rtol=1e-3)


def online(method: DSSLModel) -> list[Tensor]:
    return [*method.encoder.parameters(), *method.projection.parameters()]


def test_the_target_gets_no_gradient_and_follows_by_momentum() -> None:
    graph = random_graph()
    method = model(momentum=0.75).train()
    method(full_batch(graph, CPU)).backward()
    assert all(parameter.grad is None and not parameter.requires_grad for parameter in method.target.parameters())
    with torch.no_grad():
        for parameter in online(method):
            parameter.add_(1.0)
    before = [parameter.clone() for parameter in method.target.parameters()]
    method.after_step()
    for old, kept, new in zip(before, method.target.parameters(), online(method), strict=True):
        torch.testing.assert_close(kept, 0.75 * old + 0.25 * new)


@pytest.mark.parametrize("momentum", [0.0, 1.0])
def test_momentum_at_its_ends(momentum: float) -> None:
    graph = random_graph()
    method = model(momentum=momentum)
    start = [parameter.clone() for parameter in method.target.parameters()]
    fit(method, graph, epochs=2)
    wanted = start if momentum == 1 else online(method)
    for kept, other in zip(method.target.parameters(), wanted, strict=True):
        assert torch.equal(kept, other)


@pytest.mark.parametrize("epochs_before", [0, 1])
def test_prototypes_are_set_by_eq_8(epochs_before: int) -> None:
    """The sums of an epoch leave nothing behind for the next one, with other parameters."""
    graph = random_graph(nodes=12)
    batch = full_batch(graph, CPU)
    method = apart()
    for _ in range(epochs_before):
        method(batch)
        method.after_epoch()
        with torch.no_grad():
            for parameter in method.parameters():
                parameter.neg_()
    with torch.no_grad():
        method(batch)
        v, z, _, _ = parts(method, batch)
        start, end, _ = posterior.rows(batch.links, CPU)
        q = torch.softmax(method.head(v, z, start, end), dim=1)
    method.after_epoch()
    for k in range(3):
        total = torch.zeros(5)
        for i in range(graph.num_nodes):
            own = [q[e, k] for e in range(len(start)) if start[e] == i]
            if own:
                total += sum(own) / len(own) * v[i]
        torch.testing.assert_close(method.prototypes[k].detach(), total / total.norm(), atol=1e-5, rtol=1e-4)


def test_z_is_of_the_target_and_the_embedding_of_the_online_encoder() -> None:
    """By a dense float64 GCN over the parameters of each."""
    graph = random_graph()
    batch = full_batch(graph, CPU)
    method = apart()
    p = {name: value.double() for name, value in method.state_dict().items()}
    online, target = formulas.gcn(p, "encoder.", batch), formulas.gcn(p, "target.0.", batch)
    assert float((online - target).abs().max()) > 0.1
    np.testing.assert_allclose(method.embed(graph), online.numpy(), rtol=1e-4, atol=1e-5)
    v, z = method.unit_vectors(graph)
    for found, wanted in ((v, online), (z, target)):
        torch.testing.assert_close(found.double(), F.normalize(wanted, dim=1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("whole", [False, True])
def test_eq_8_takes_the_batches_of_the_epoch_or_all_nodes_after_its_last_step(whole: bool) -> None:
    graph = random_graph()
    method = apart(prototype_pass=whole)
    method.prepare(graph, seed=0)
    sums = torch.zeros(3, 5)
    optimizer = torch.optim.SGD(method.parameters(), lr=0.5)
    options = {"batch_size": 15, "fanout": ALL_NEIGHBOURS, "seed": 0, "epoch": 0, "device": CPU}
    for batch in method.batches(graph, Sampling(**options)):
        centres = batch.nodes[: batch.num_centres]
        sums += torch.from_numpy(method.factors(graph)[1][centres].T) @ method.unit_vectors(graph)[0][centres]
        method.train()
        loss = method(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        method.after_step()
    after = torch.from_numpy(method.factors(graph)[1].T) @ method.unit_vectors(graph)[0]
    assert float((F.normalize(after, dim=1) - F.normalize(sums, dim=1)).abs().max()) > 1e-2
    method.after_epoch()
    wanted = F.normalize(after if whole else sums, dim=1)
    torch.testing.assert_close(method.prototypes.detach(), wanted, rtol=1e-3, atol=1e-4)


def test_without_the_update_prototypes_move_by_gradient_alone() -> None:
    graph = random_graph()
    method = model(prototype_update=False).train()
    before = method.prototypes.detach().clone()
    method(full_batch(graph, CPU))
    method.after_epoch()
    assert torch.equal(method.prototypes.detach(), before)


def fit(
    method: DSSLModel, graph: Graph, *, epochs: int = 5, batch_size: int = 0, **options: Any
) -> list[dict[str, float]]:
    records: list[dict[str, float]] = []
    train(
        method,
        graph,
        epochs=epochs,
        learning_rate=0.01,
        weight_decay=0.0,
        batch_size=batch_size,
        fanout=options.pop("fanout", (3, 2)),
        seed=0,
        device=CPU,
        on_epoch=lambda _, record: records.append(record),
        **options,
    )
    return records


OURS = {
    "center": True,
    "projector": True,
    "reconstruction_weight": 1.0,
    "link_reconstruction_weight": 1.0,
    "balance_weight": 0.2,
    "entropy_weight": 0.1,
    "distillation_weight": 0.5,
}


@pytest.mark.parametrize("change", [{}, {"head": "product"}, {"inference": "uniform"}])
def test_one_batch_of_everything_equals_the_full_batch(change: dict[str, Any]) -> None:
    graph = random_graph()
    whole, one = model(**OURS | change).train(), model(**OURS | change).train()
    for method in (whole, one):
        method.prepare(graph, seed=0)
    order = np.random.default_rng(0).permutation(graph.num_nodes)
    losses = [
        whole(full_batch(graph, CPU)),
        one(sampled_batch(graph, degrees(graph), order, ALL_NEIGHBOURS, 2, 0, CPU)),
    ]
    torch.testing.assert_close(losses[0], losses[1], atol=1e-5, rtol=1e-5)
    for loss in losses:
        loss.backward()
    for first, second in zip(whole.parameters(), one.parameters(), strict=True):
        if first.grad is not None and second.grad is not None:
            torch.testing.assert_close(first.grad, second.grad, atol=1e-5, rtol=1e-3)
    records = whole.after_epoch(), one.after_epoch()
    assert records[0].keys() == records[1].keys()
    assert all(records[0][name] == pytest.approx(records[1][name], rel=1e-3, abs=1e-5) for name in records[0])


@pytest.mark.parametrize("batch_size", [0, 16])
def test_the_record_names_what_is_promised(batch_size: int) -> None:
    records = fit(model(**OURS), random_graph(), epochs=2, batch_size=batch_size)
    wanted = {"loss", "local", "global", "entropy", "effective_rank", "posterior_entropy", "factor_usage_max"}
    assert all(wanted <= record.keys() for record in records)
    assert all(math.isfinite(value) for record in records for value in record.values())
    assert all(0 <= record["posterior_entropy"] <= 1 + 1e-6 for record in records)
    assert all(1 / 3 - 1e-6 <= record["factor_usage_max"] <= 1 for record in records)


@pytest.mark.parametrize("batch_size", [0, 16])
@pytest.mark.parametrize("estimator", ["exact", "gumbel"])
def test_resumed_training_ends_with_the_same_bytes(tmp_path: Path, estimator: str, batch_size: int) -> None:
    graph = random_graph()
    once, twice = model(estimator=estimator, **OURS), model(estimator=estimator, **OURS)
    fit(once, graph, epochs=6, batch_size=batch_size)
    path = tmp_path / "checkpoint.safetensors"
    fit(twice, graph, epochs=4, batch_size=batch_size, checkpoint=path, checkpoint_every=2)
    fresh = model(estimator=estimator, seed=9, **OURS)
    fit(fresh, graph, epochs=6, batch_size=batch_size, checkpoint=path, checkpoint_every=2)
    assert once.embed(graph).tobytes() == fresh.embed(graph).tobytes()


def test_same_seed_same_bytes_and_other_seed_other_bytes() -> None:
    graph = random_graph()
    found = []
    for seed in (0, 0, 1):
        method = model(seed=seed, **OURS)
        fit(method, graph, batch_size=16)
        found.append(method.embed(graph).tobytes())
    assert found[0] == found[1] != found[2]


def test_training_lowers_the_loss_and_leaves_the_graph_alone() -> None:
    graph = random_graph()
    before = graph.fingerprint()
    records = fit(model(**OURS), graph, epochs=30)
    assert records[-1]["loss"] < 0.8 * records[0]["loss"]
    assert graph.fingerprint() == before


def test_factors_are_distributions_per_arc_and_their_means_per_node() -> None:
    graph = random_graph()
    method = model(**OURS)
    fit(method, graph)
    links, nodes = method.factors(graph)
    assert links.shape == (graph.num_arcs, 3) and nodes.shape == (graph.num_nodes, 3)
    np.testing.assert_allclose(links.sum(axis=1), 1, atol=1e-5)
    for i in range(graph.num_nodes):
        own = links[graph.indptr[i] : graph.indptr[i + 1]]
        np.testing.assert_allclose(nodes[i], own.mean(axis=0) if len(own) else 0, atol=1e-5)


def test_blocks_give_the_factors_and_scores_of_the_whole_graph() -> None:
    graph = random_graph()
    method = model(**OURS)
    fit(method, graph)
    pairs = np.array([[0, 1], [5, 9], [12, 3]])
    np.testing.assert_allclose(
        method.link_scores(graph, pairs, scale=BY_BLOCKS), method.link_scores(graph, pairs), atol=1e-4
    )
    for found, wanted in zip(method.factors(graph, scale=BY_BLOCKS), method.factors(graph), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_targets_by_blocks_are_those_of_the_whole_graph_up_to_rotation() -> None:
    graph = communities()
    batch = full_batch(graph, CPU)
    products = []
    for scale in (IN_MEMORY, BY_BLOCKS):
        method = model(link_reconstruction_dim=3, **OURS)  # one component per group: a fourth would not be unique
        method.prepare(graph, seed=0, scale=scale)
        links, features = method.additions.links, method.additions.features
        assert links.predictability > 0.5
        targets = features.targets_of(batch).numpy()
        products.append((links.targets @ links.targets.T, targets @ targets.T))
    for in_memory, by_blocks in zip(*products, strict=True):
        np.testing.assert_allclose(by_blocks, in_memory, atol=1e-3)


def test_printed_loss_collapses_and_is_said_to() -> None:
    """The paper's loss to the letter ends with all nodes alike; the warning says so."""
    draw = np.random.default_rng(0)
    graph = Graph.from_edges(*draw.integers(60, size=(2, 300)), x=draw.normal(size=(60, 7)))
    method = model(entropy_weight=1.0, momentum=0.5)
    records = fit(method, graph, epochs=300)
    vectors = method.unit_vectors(graph)[0]
    assert float(vectors.mean(dim=0).square().sum()) > 0.95
    assert records[-1]["posterior_entropy"] > 0.95
    assert any("same posterior" in sentence for sentence in method.warnings())


def test_graphs_without_links_and_with_one_node_train() -> None:
    for nodes in (1, 4):
        graph = Graph.from_edges([], [], num_nodes=nodes, x=np.eye(nodes, 7))
        method = model(**OURS)
        records = fit(method, graph, epochs=2)
        assert all(math.isfinite(value) for record in records for value in record.values())
        assert np.isfinite(method.embed(graph)).all()


def test_distillation_is_the_cross_entropy_with_the_smoothed_groups_of_links() -> None:
    graph = random_graph(nodes=12)
    batch = full_batch(graph, CPU)
    taught, alone = (model(distillation_weight=w).train() for w in (0.5, 0.0))
    for method in (taught, alone):
        method.prepare(graph, seed=0)
    difference = float((taught(batch) - alone(batch)).detach())
    groups = LinkGroups(graph, 3, seed=0).posteriors
    links = [link for link in zip(graph.sources().tolist(), graph.indices.tolist(), strict=True) if link[0] < link[1]]
    q, _ = taught.factors(graph)
    total = 0.0
    for e, (i, j) in enumerate(zip(graph.sources().tolist(), graph.indices.tolist(), strict=True)):
        wanted = 0.9 * groups[links.index((min(i, j), max(i, j)))] + 0.1 / 3  # one target for both directions
        total -= float((wanted * np.log(q[e])).sum()) / graph.num_arcs
    assert difference == pytest.approx(0.5 * total, rel=1e-3)


def test_groups_of_a_warm_start_keep_the_numbers_of_the_factors() -> None:
    plain = communities()
    x = np.asarray(plain.x) + 5 * np.repeat(np.eye(3, 7), 20, axis=0)  # a cluster per group
    graph = plain.replace(x=x.astype(np.float32))
    method = model(distillation_weight=5.0, center=True)
    fit(method, graph, epochs=60)
    ends = graph.sources().astype(np.int64), graph.indices.astype(np.int64)
    factor = method.factors(graph)[0].argmax(axis=1)
    agreed = []
    for seed in range(1, 6):  # other starts number the groups otherwise
        method.prepare(graph, seed=seed)
        agreed.append((method.additions.teacher.targets(*ends)[0].argmax(axis=1) == factor).mean())
        method.fitted.fill_(False)
        method.prepare(graph, seed=seed)
        agreed.append((method.additions.teacher.targets(*ends)[0].argmax(axis=1) == factor).mean())
    assert min(agreed[::2]) > 0.9
    assert min(agreed[1::2]) < 0.5


def test_uniform_posteriors_are_not_taught() -> None:
    method = model(inference="uniform", distillation_weight=0.5)
    method.prepare(random_graph(), seed=0)
    assert method.additions.teacher is None


def communities(size: int = 20, groups: int = 3) -> Graph:
    """Groups of nodes that are all linked: links can be predicted from links."""
    pairs = [(g * size + i, g * size + j) for g in range(groups) for i in range(size) for j in range(i) if (i + j) % 3]
    x = np.random.default_rng(0).normal(size=(size * groups, 7))
    return Graph.from_edges(*np.array(pairs).T, x=x)


def test_links_are_reconstructed_as_a_loop_over_nodes_says() -> None:
    graph = communities()
    with_links, without = model(link_reconstruction_weight=2.0), model()
    with_links.prepare(graph, seed=0)
    without.load_state_dict({k: v for k, v in with_links.state_dict().items() if not k.startswith("additions")})
    batch = full_batch(graph, CPU)
    dense = graph.adjacency().toarray()
    scale = 1 / np.sqrt(dense.sum(axis=0))
    u, sizes, _ = np.linalg.svd(scale[:, None] * dense * scale)
    wanted = u[:, :4] * sizes[:4]
    embedding = with_links.embed(graph)
    assert with_links.additions.links is not None
    decoded = with_links.additions.links.decoder(torch.from_numpy(embedding)).detach().numpy()
    # Components of equal size may be turned, and signs differ: compare what does not depend on it.
    assert with_links.additions.links.targets is not None
    targets = with_links.additions.links.targets
    np.testing.assert_allclose(targets @ targets.T, wanted @ wanted.T, atol=1e-4)
    cosines = [decoded[i] @ targets[i] / np.linalg.norm(decoded[i]) / np.linalg.norm(targets[i]) for i in range(60)]
    predictability = link_predictability(graph)
    assert predictability > 0.5
    difference = (with_links.train()(batch) - without.train()(batch)).item()
    assert difference == pytest.approx(2.0 * predictability * (1 - np.mean(cosines)), rel=1e-3)


def link_predictability(graph: Graph) -> float:
    from dssl.graph.link_auc import link_auc

    return max(0.0, 2 * link_auc(graph, seed=0) - 1)


def test_links_that_cannot_be_predicted_are_not_reconstructed() -> None:
    graph = random_graph()
    method = model(link_reconstruction_weight=2.0)
    method.prepare(graph, seed=0)
    assert method.additions.links.predictability == pytest.approx(link_predictability(graph))
    method.prepare(communities(), seed=0)
    assert method.additions.links.predictability > 0.5


def test_link_components_of_a_warm_start_are_turned_to_the_decoder_and_stay_the_same_otherwise() -> None:
    graph = communities()
    method = model(link_reconstruction_weight=2.0)
    method.prepare(graph, seed=0)
    assert method.additions.links.targets is not None
    first = method.additions.links.targets.copy()
    method.prepare(graph, seed=0)
    again = method.additions.links.targets
    np.testing.assert_allclose(again @ again.T, first @ first.T, atol=1e-4)
    assert method.additions.links is not None
    told = method.additions.links.decoder(torch.from_numpy(method.embed(graph))).detach().numpy()
    assert np.square(again - told).sum() < np.square(first - told).sum()


def test_a_graph_without_links_has_none_to_reconstruct() -> None:
    graph = Graph.from_edges([], [], num_nodes=4, x=np.eye(4, 7))
    method = model(link_reconstruction_weight=2.0)
    method.prepare(graph, seed=0)
    assert torch.isfinite(method.train()(full_batch(graph, CPU)))
