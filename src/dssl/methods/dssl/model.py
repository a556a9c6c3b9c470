r"""Decoupled self-supervised learning (DSSL).

Xiao, Chen, Guo, Zhuang, Wang: *Decoupled Self-supervised Learning for Non-Homophilous Graphs*, NeurIPS 2022.

Every link :math:`(i, j)` has one of K reasons. A neighbour is the centre plus the shift of the reason, and the
centre lies near the prototype of the reason:

.. math::
    p(k \mid v_i) &= \mathrm{softmax}_k(v_i^\top \mu_k / \sigma_1^2) \tag{3} \\
    p(z_j \mid v_i, k) &= \mathcal{N}(z_j;\; v_i + \beta g(k),\; \sigma_2^2 I) \\
    \mathcal{L}_i &= \frac{1}{|N(i)|} \sum_{j \in N(i)} \Big(
        \underbrace{\mathbb{E}_q \|v_i + \beta g(k) - z_j\|^2}_{\text{local}}
        - \sigma_2^2 \underbrace{\mathbb{E}_q \log p(k \mid v_i)}_{\text{global}}
        - \lambda \underbrace{\mathcal{H}(q)}_{\text{entropy}} \Big) \tag{5} \\
    q(k \mid v_i, z_j) &= \mathrm{softmax}_k(h([v_i; z_j])) \tag{6} \\
    \mu_k &\propto \sum_i \pi_i(k)\, v_i, \qquad
        \pi_i(k) = \frac{1}{|N(i)|} \sum_{j \in N(i)} q(k \mid v_i, z_j) \tag{8}

========================  =========================  ============================================================
symbol                    name                       meaning
========================  =========================  ============================================================
:math:`v_i, z_j`          ``v``, ``z``               unit vectors of centre (online) and neighbour (target encoder)
:math:`\mu_k`             ``prototypes``             unit vector of factor k
:math:`g(k)`              ``shifts``                 shift of factor k: an MLP on the one-hot k
:math:`h`                 ``head``                   inference network
:math:`\beta`             ``shift_scale``            strength of the shift
:math:`\sigma_1^2`        ``prototype_variance``     variance around prototypes
:math:`\sigma_2^2`        ``link_variance``          variance around predictions, with the factor 2 absorbed (A.2)
:math:`\lambda`           ``entropy_weight``         1 in Eq. 5; :math:`\sigma_2^2` follows from A.2
:math:`\gamma`            ``temperature``            of the Gumbel-softmax (Eq. 7)
:math:`\tau`              ``momentum``               of the target encoder
========================  =========================  ============================================================

Where we differ from the paper, and why: see ``docs/methods/dssl.md``. In short: the expectation over k is exact by
default (K is small); vectors are centred before they are scaled to length one, or every link gets the same
posterior; the entropy of the mean posterior is rewarded, or one factor takes all links; the loss sees the
embedding through a projector and a decoder of the features keeps it from forgetting the node itself. Each of
these is an option, and ``preset="paper"`` turns all of them off. The posteriors can be taught the clusters of the
links' pairs of features (`dssl.methods.dssl.pair_clusters`), which finds planted reasons that they miss by
themselves. With ``relation="map"`` a factor moves the centre by a matrix, :math:`M_k v_i = (I + \beta B_k) v_i`,
where the shift adds the same vector to every centre.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Literal, cast

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor, nn

from dssl.graph import Graph
from dssl.graph.adjacency import mean_matrix
from dssl.graph.svd import truncated_svd
from dssl.kernels.fused import squares_and_products, weighted_squares
from dssl.methods.base import follow
from dssl.methods.dssl import pair_clusters, posterior
from dssl.methods.dssl.reconstruction import FeatureReconstruction, LinkReconstruction
from dssl.nn import health, layerwise
from dssl.nn.batches import Batch, Batches, full_batch
from dssl.nn.encoders import Dense, Encoder
from dssl.nn.heads import Branch, Head
from dssl.runtime import distributed, out_of_core
from dssl.runtime.scale import IN_MEMORY, Scale

Estimator = Literal["exact", "gumbel", "gumbel-soft"]
Inference = Literal["amortised", "exact", "uniform"]
Relation = Literal["shift", "map"]
DISTILLED = 8192  # links per step whose posterior is compared with the pair clusters
SMOOTHING = 0.1  # share of the uniform distribution in them, or posteriors end without entropy (Texas: 0.07 of ln K)


class DSSLModel(nn.Module):
    """The networks and the loss of DSSL.

    Args:
        encoder: the online encoder; the target encoder is its moving average.
        in_dim: number of features F.
        num_factors: K.
        relation: ``shift`` predicts v + β g(k) on a link of factor k; ``map`` (I + β B_k) v.
        shift_scale: β; 0 removes the semantic shift (ablation A4), or makes every map the identity.
        prototype_variance: σ₁².
        link_variance: σ₂².
        momentum: τ.
        estimator: ``exact`` sums over k; ``gumbel`` draws one k per link, straight through; ``gumbel-soft`` relaxes it.
        temperature: γ of the Gumbel estimators.
        inference: ``amortised`` is the network h; ``exact`` the closed form; ``uniform`` 1/K (ablation A5).
        head: ``concat`` or ``product`` of v and z as the input of h.
        local_weight: 0 is ablation A1.
        global_weight: 0 is ablation A2.
        entropy_weight: λ; 0 is ablation A3.
        balance_weight: weight of the entropy of the mean posterior.
        prototype_update: whether Eq. 8 is applied after each epoch.
        center: whether vectors are centred before they are scaled to length one.
        projector: whether the loss sees the embedding through a network.
        reconstruction_weight: weight of the cosine loss of a linear decoder of the features.
        reconstruction_dim: columns of the features' SVD that are decoded; at most F.
        link_reconstruction_weight: weight of the cosine loss of a linear decoder of the links, times how much better
            than chance links can be foretold from other links (`dssl.nn.fixed_blocks.link_auc`): no label is looked at.
        link_reconstruction_dim: columns of the SVD of the normalised adjacency matrix that are decoded.
        negatives: random nodes per centre that it is pushed away from.
        distillation_weight: weight of the cross-entropy with the clusters of the links' pairs of features.
        factor_readout: whether the embedding also holds the mean of the neighbours' for each factor.
    """

    def __init__(
        self,
        encoder: Encoder,
        *,
        in_dim: int,
        num_factors: int,
        relation: Relation,
        shift_scale: float,
        prototype_variance: float,
        link_variance: float,
        momentum: float,
        estimator: Estimator,
        temperature: float,
        inference: Inference,
        head: Literal["concat", "product"],
        local_weight: float,
        global_weight: float,
        entropy_weight: float,
        balance_weight: float,
        prototype_update: bool,
        center: bool,
        projector: bool,
        reconstruction_weight: float,
        reconstruction_dim: int,
        link_reconstruction_weight: float,
        link_reconstruction_dim: int,
        negatives: int,
        distillation_weight: float,
        factor_readout: bool,
    ) -> None:
        super().__init__()
        dim = encoder.dim
        self.num_factors, self.beta = num_factors, shift_scale
        self.sigma1, self.sigma2 = prototype_variance, link_variance
        self.momentum, self.estimator, self.temperature = momentum, estimator, temperature
        self.inference = inference
        self.local_weight, self.global_weight = local_weight, global_weight
        self.entropy_weight, self.balance_weight = entropy_weight, balance_weight
        self.prototype_update, self.reconstruction_weight = prototype_update, reconstruction_weight
        self.link_reconstruction_weight, self.factor_readout = link_reconstruction_weight, factor_readout
        self.negatives, self.distillation_weight = negatives, distillation_weight

        self.online = Branch(encoder, projector=projector, center=center)
        self.shifts, self.maps = None, None
        if relation == "shift":
            self.shifts = nn.Sequential(Dense(num_factors, dim), nn.ReLU(), Dense(dim, dim))
        else:  # small, but not all alike: no two factors may start the same
            self.maps = nn.Parameter(0.1 / dim**0.5 * torch.randn(num_factors, dim, dim))
        self.head = Head(dim, num_factors, product=head == "product")
        self.prototypes = nn.Parameter(torch.randn(num_factors, dim))
        self.rebuilt = FeatureReconstruction(dim, reconstruction_dim, in_dim=in_dim) if reconstruction_weight else None
        self.relinked = LinkReconstruction(dim, link_reconstruction_dim) if link_reconstruction_weight else None
        # Made last, as a copy: it draws nothing, and every ablation starts from the same weights.
        self.target = copy.deepcopy(self.online).requires_grad_(False)
        self.register_buffer("prototype_sums", torch.zeros(num_factors, dim), persistent=False)
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))  # whether a training began before
        self._pairs: pair_clusters.Clusters | None = None
        self._meter = health.Meter()
        self._batches = Batches()
        self._last: dict[str, float] = {}

    # --- the four verbs of a method --------------------------------------------------------------------------

    def before_epoch(self, epoch: int, epochs: int) -> None:
        """Nothing changes along the training."""

    def prepare(self, graph: Graph, *, seed: int, scale: Scale = IN_MEMORY) -> None:
        """Make the targets of the reconstruction, leading components of features and links, and the pair clusters."""
        if self.relinked is not None:
            known = self.embed(graph, scale=scale)[:, : self.online.encoder.dim].copy() if bool(self.fitted) else None
            self.relinked.prepare(graph, known=known, seed=seed)
        if graph.x is not None:
            if self.rebuilt is not None:
                self.rebuilt.prepare(graph.x, seed=seed)
            if self.distillation_weight > 0 and self.inference != "uniform":
                self._pairs = self._pair_clusters(graph, seed)
        cast(Tensor, self.fitted).fill_(True)

    def batches(
        self, graph: Graph, *, batch_size: int, fanout: Sequence[int], seed: int, epoch: int, device: torch.device
    ) -> Iterator[Batch]:
        """Give the batches of an epoch; a ``batch_size`` of 0 is the whole graph at once."""
        encoder = self.online.encoder
        return self._batches.of(
            graph,
            batch_size=batch_size,
            fanout=fanout,
            layers=encoder.hops,
            seed=seed,
            epoch=epoch,
            device=device,
            averages=encoder.averages,
        )

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss of the batch (Eq. 5, a mean over centres with neighbours) and note its terms."""
        embedding, projected = self.online(batch.centres)
        v = projected[: batch.num_centres]
        with torch.no_grad():
            z = self.target(batch)[1]
        log_p = self._log_prior(v)
        active = v.new_tensor([(np.diff(batch.links.indptr) > 0).sum()])

        found, terms = self._expectations(batch, v, z, log_p)
        sums = distributed.total(torch.cat([torch.stack(terms), found.by_centre.sum(dim=0), active]))
        means = sums[:-1] / sums[-1].clamp_min(1)
        (local, global_, entropy), usage = means[:3].unbind(), means[3:]
        balance = -(usage * usage.clamp_min(1e-30).log()).sum()
        loss = (
            self.local_weight * local
            + self.global_weight * self.sigma2 * global_
            - self.entropy_weight * entropy
            - self.balance_weight * balance
        )
        extra: dict[str, Tensor] = {}
        if self.rebuilt is not None and self.rebuilt.ready:
            extra["reconstruction"] = self.rebuilt(embedding, batch)
            loss = loss + self.reconstruction_weight * extra["reconstruction"]
        if self.relinked is not None and self.relinked.ready:
            extra["links"] = self.relinked(embedding, batch)
            loss = loss + self.relinked.share * self.link_reconstruction_weight * extra["links"]
        if self._pairs is not None:
            extra["distillation"] = self._distillation(batch, v, z, log_p)
            loss = loss + self.distillation_weight * extra["distillation"]
        if self.negatives:
            extra["negative"] = repulsion(v, z, self.sigma2, self.negatives)
            loss = loss + extra["negative"]
        if self.training:
            self._note(batch, embedding, found, v, loss, local, global_, entropy, extra)
        return loss

    def after_step(self) -> None:
        """ξ ← τ ξ + (1 − τ) θ, for parameters and running means alike."""
        follow(self.target, self.online, self.momentum)

    def after_epoch(self) -> dict[str, float]:
        """Set the prototypes by Eq. 8 and return the epoch's record.

        The sums of Eq. 8 are gathered over the batches of the epoch: each node counts once, with the parameters
        of its batch. With one batch that is the update as printed.
        """
        sums = distributed.total(cast(Tensor, self.prototype_sums))
        if self.prototype_update:
            lengths = sums.norm(dim=1, keepdim=True)
            with torch.no_grad():
                self.prototypes.copy_(torch.where(lengths > 1e-12, sums / lengths.clamp_min(1e-12), self.prototypes))
        cast(Tensor, self.prototype_sums).zero_()
        self._last = self._meter.read()
        return self._last

    def embed(self, graph: Graph, *, scale: Scale = IN_MEMORY) -> NDArray[np.float32]:
        """Return the embedding of each node, before the projector, shape ``(N, dim)``.

        With ``factor_readout`` the mean of the neighbours' for each factor stands beside it, ``(N, (1 + K) · dim)``.
        """
        device = self.prototypes.device
        self.eval()
        if not scale.in_memory:
            values = layerwise.encoded(self.online.encoder, graph, device)
        else:
            with torch.no_grad():
                values = self.online(full_batch(graph, device))[0].cpu().numpy()
        if not self.factor_readout:
            return values
        links = mean_matrix(graph.adjacency())
        return np.hstack([values, posterior.factor_means(links, self.factors(graph)[0], values)])

    def factors(self, graph: Graph) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return q(k | v_i, z_j) of each arc in the graph's order, ``(A, K)``, and q(k | v_i), ``(N, K)``."""
        v, z = self._vectors(graph)
        with torch.no_grad():
            start, end, weights = posterior.rows(mean_matrix(graph.adjacency()), v.device)
            q = torch.softmax(self._logits(v, z, self._log_prior(v), start, end), dim=1)
            by_node = q.new_zeros(graph.num_nodes, self.num_factors).index_add(0, start, weights[:, None] * q)
        return q.cpu().numpy(), by_node.cpu().numpy()

    def link_scores(self, graph: Graph, pairs: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return log p(z_j | v_i) of Eq. 1 for pairs of nodes, linked or not, up to a constant, shape ``(M,)``.

        In an undirected graph it is the mean of both directions.

        Args:
            graph: the graph, with features.
            pairs: positions of the nodes i and j, shape ``(M, 2)``.
        """
        v, z = self._vectors(graph)
        start, end = (torch.from_numpy(np.ascontiguousarray(side)).to(v.device) for side in pairs.T)
        with torch.no_grad():
            log_p = self._log_prior(v)
            directions = [(start, end)] if graph.directed else [(start, end), (end, start)]
            joint = (log_p[i] - self.distances(v, z, i, j) / self.sigma2 for i, j in directions)
            scores = torch.stack([torch.logsumexp(both, dim=1) for both in joint]).mean(dim=0)
        return cast("NDArray[np.float32]", scores.cpu().numpy())

    def _vectors(self, graph: Graph) -> tuple[Tensor, Tensor]:
        """Return v and z of each node, outside training."""
        self.eval()
        device = self.prototypes.device
        with torch.no_grad():
            if graph.num_nodes <= out_of_core.LARGE:
                batch = full_batch(graph, device)
                return self.online(batch)[1], self.target(batch)[1]
            found = (
                layerwise.mapped(branch.unit, layerwise.encoded(branch.encoder, graph, device), device)
                for branch in (self.online, self.target)
            )
            v, z = (torch.from_numpy(vectors).to(device) for vectors in found)
            return v, z

    def warnings(self) -> list[str]:
        """Say whether the representation or the factors collapsed, and what to change."""
        dim = self.online.encoder.dim
        advice = {
            "effective_rank": "raise reconstruction_weight, set center = true, or lower learning_rate",
            "factor_usage_max": "raise balance_weight or entropy_weight",
            "factor_information": "set center = true, or lower entropy_weight",
        }
        found = health.collapses(self._last, self.health_limits(), dim=dim)
        return [f"{sentence}: {advice[name]}" for name, sentence in found.items()]

    def health_limits(self) -> dict[str, dict[str, float]]:
        """Return the limits beyond which `warnings` reports a collapse."""
        return health.limits(self.online.encoder.dim, num_factors=self.num_factors)

    # --- the terms of Eq. 5 ----------------------------------------------------------------------------------

    def _expectations(
        self, batch: Batch, v: Tensor, z: Tensor, log_p: Tensor
    ) -> tuple[posterior.Statistics, tuple[Tensor, Tensor, Tensor]]:
        """Sums over the links of local, global (negative log p) and entropy, by the chosen estimator."""
        if self.estimator != "exact" and self.inference == "amortised":
            return self._sampled(batch, v, z, log_p)
        if self.maps is None:
            found = self._posterior(batch, v, z, log_p, None)
            local = local_loss(batch, found, v, z, self.shift_vectors())
        else:
            start, end, _ = posterior.rows(batch.links, v.device)
            found = self._posterior(batch, v, z, log_p, self.distances(v, z, start, end))
            local = found.total
        return found, (local, -(found.by_centre * log_p).sum(), found.entropy)

    def _posterior(
        self, batch: Batch, v: Tensor, z: Tensor, log_p: Tensor, distances: Tensor | None
    ) -> posterior.Statistics:
        """Sums of the posteriors; distances with a row per link, shape ``(A, K)``, are averaged by them."""
        if self.inference == "uniform":
            return posterior.uniform(batch.links, self.num_factors, v.device, distances)
        if self.inference == "amortised" and not self.head.product:
            ends = self.head.split(v, z)
            out = self.head.out.weight.T, self.head.out_bias
            return posterior.from_head(batch.links, *ends, *out, distances, plan=batch.plan)
        if self.inference == "exact" and distances is None:
            return posterior.from_sums(batch.links, *self._closed_form(v, z, log_p))
        start, end, _ = posterior.rows(batch.links, v.device)
        if self.inference == "exact" and distances is not None:
            return posterior.from_rows(batch.links, (log_p[start] - distances / self.sigma2).detach(), distances)
        return posterior.from_rows(batch.links, self.head(v, z, start, end), distances)

    def _closed_form(self, v: Tensor, z: Tensor, log_p: Tensor) -> tuple[Tensor, Tensor]:
        """The parts s_i and t_j of log q*(k) = log p(k | v_i) − ‖v_i + β g_k − z_j‖² / σ₂² + const.

        It minimises Eq. 5 over q for an entropy weight of σ₂², the one that follows from the derivation.
        """
        shifts = self.shift_vectors()
        centre = log_p - (v @ (2 * shifts).T + shifts.square().sum(dim=1)) / self.sigma2
        return centre, z @ (2 * shifts).T / self.sigma2

    def _logits(self, v: Tensor, z: Tensor, log_p: Tensor, start: Tensor, end: Tensor) -> Tensor:
        if self.inference == "uniform":
            return v.new_zeros(start.shape[0], self.num_factors)
        if self.inference == "exact":
            return log_p.index_select(0, start) - self.distances(v, z, start, end) / self.sigma2
        return cast(Tensor, self.head(v, z, start, end))

    def _sampled(
        self, batch: Batch, v: Tensor, z: Tensor, log_p: Tensor
    ) -> tuple[posterior.Statistics, tuple[Tensor, Tensor, Tensor]]:
        """Eq. 7: one (relaxed) draw c per link; g takes c, so that every link needs a row of its own.

        Maps are averaged by their distances: a draw that is one-hot has the distance of its map either way.
        """
        start, end, weights = posterior.rows(batch.links, v.device)
        logits = self.head(v, z, start, end)
        found = posterior.from_rows(batch.links, logits)
        c = F.gumbel_softmax(logits, tau=self.temperature, hard=self.estimator == "gumbel")
        if self.shifts is None:
            each = (c * self.distances(v, z, start, end)).sum(dim=1)
        else:
            each = (v.index_select(0, start) + self.beta * self.shifts(c) - z.index_select(0, end)).square().sum(dim=1)
        local = (weights * each).sum()
        global_ = -(weights * (c * log_p.index_select(0, start)).sum(dim=1)).sum()
        return found, (local, global_, found.entropy)

    def shift_vectors(self) -> Tensor:
        """β g(k) for every k, shape ``(K, dim)``."""
        assert self.shifts is not None
        return self.beta * cast(Tensor, self.shifts(torch.eye(self.num_factors, device=self.prototypes.device)))

    def predictions(self, v: Tensor) -> Tensor:
        """What each factor predicts of a neighbour, v_i + β g(k) or (I + β B_k) v_i, shape ``(n, K, dim)``."""
        if self.maps is None:
            return v[:, None] + self.shift_vectors()
        moved = v @ self.maps.flatten(0, 1).T  # B_k v_i, the factors side by side
        return v[:, None] + self.beta * moved.view(-1, *self.maps.shape[:2])

    def distances(self, v: Tensor, z: Tensor, start: Tensor, end: Tensor) -> Tensor:
        """‖prediction of i under k − z_j‖² for pairs of a node i and a node j, shape ``(A, K)``."""
        p = self.predictions(v)
        products = posterior.products(p, z, start, end)
        ends = p.square().sum(dim=2).index_select(0, start) + z.square().sum(dim=1).index_select(0, end)[:, None]
        return ends - 2 * products

    def _log_prior(self, v: Tensor) -> Tensor:
        """Eq. 3: log p(k | v_i), shape ``(n, K)``."""
        return torch.log_softmax(v @ F.normalize(self.prototypes, dim=1).T / self.sigma1, dim=1)

    def _pair_clusters(self, graph: Graph, seed: int) -> pair_clusters.Clusters:
        """Clusters of the links' pairs; a warm start gives them the numbers of the factors that they are now."""
        assert graph.x is not None
        values = None if self.rebuilt is None else self.rebuilt.targets
        if values is None or values.shape[1] < min(pair_clusters.DIM, graph.num_features):
            values = truncated_svd(graph.x, pair_clusters.DIM, seed=seed)
        found = pair_clusters.cluster_pairs(graph, pair_clusters.directions(values), self.num_factors, seed=seed)
        if not bool(self.fitted) or not graph.num_arcs:
            return found
        v, z = self._vectors(graph)
        arcs = np.linspace(0, graph.num_arcs - 1, min(graph.num_arcs, DISTILLED)).astype(np.int64)
        start, end = graph.sources()[arcs].astype(np.int64), graph.indices[arcs].astype(np.int64)
        ends = (torch.from_numpy(places).to(v.device) for places in (start, end))
        with torch.no_grad():
            q = torch.softmax(self._logits(v, z, self._log_prior(v), *ends), dim=1).cpu().numpy()
        told = torch.softmax(torch.from_numpy(found.logits(start, end)), dim=1).numpy()
        order = linear_sum_assignment(q.T @ told, maximize=True)[1]
        return pair_clusters.Clusters(found.first[:, order], found.second[:, order], found.turned)

    def _distillation(self, batch: Batch, v: Tensor, z: Tensor, log_p: Tensor) -> Tensor:
        """Cross-entropy of the posterior with the pair clusters, a mean over (a sample of) the links."""
        assert self._pairs is not None
        start, end = posterior.sampled_rows(batch.links, DISTILLED)
        wanted = torch.from_numpy(self._pairs.logits(batch.nodes[start], batch.nodes[end])).to(v.device)
        ends = (torch.from_numpy(places).to(v.device) for places in (start, end))
        logits = self._logits(v, z, log_p, *ends)
        found = F.cross_entropy(logits, torch.softmax(wanted, dim=1), label_smoothing=SMOOTHING, reduction="sum")
        added, number = distributed.total(torch.stack([found, found.new_tensor(len(start))])).unbind()
        return added / number.clamp_min(1)

    def _note(
        self,
        batch: Batch,
        embedding: Tensor,
        found: posterior.Statistics,
        v: Tensor,
        loss: Tensor,
        local: Tensor,
        global_: Tensor,
        entropy: Tensor,
        extra: dict[str, Tensor],
    ) -> None:
        """Gather what Eq. 8 and the record of the epoch need."""
        with torch.no_grad():
            cast(Tensor, self.prototype_sums).add_(found.by_centre.T @ v)
            rank = health.effective_rank(embedding)
            self._meter.add(
                batch.num_centres,
                {
                    "loss": float(loss),
                    "local": float(local),
                    "global": float(global_),
                    "entropy": float(entropy),
                    **{name: float(value) for name, value in extra.items()},
                    "effective_rank": rank,
                    **health.factor_statistics(found.usage, found.mean_entropy),
                },
            )


def local_loss(batch: Batch, found: posterior.Statistics, v: Tensor, z: Tensor, shifts: Tensor) -> Tensor:
    r"""Return :math:`\sum_{ij} w_{ij} \mathbb{E}_q \|v_i + s_k - z_j\|^2` for shifts s of shape ``(K, dim)``.

    Expanded, so that nothing has a row per link: the products of v and z are one sparse product, those with the
    shifts need only the sums P and R of the posteriors.
    """
    centre, neighbour = batch.link_sums
    apart = squares_and_products(centre, v, batch.neighbours @ z) + weighted_squares(neighbour, z)
    shifted = (found.by_centre * (v @ (2 * shifts).T + shifts.square().sum(dim=1))).sum()
    return apart + shifted - 2 * (found.by_neighbour * (z @ shifts.T)).sum()


def repulsion(v: Tensor, z: Tensor, variance: float, count: int) -> Tensor:
    """Negative sampling: σ₂² log mean exp(−‖v_i − z_j‖²/σ₂²) over ``count`` random nodes j per centre i."""
    others = torch.randint(z.shape[0], (v.shape[0], count), device=v.device)
    distances = (v[:, None, :] - z[others]).square().sum(dim=2)
    summed = torch.logsumexp(-distances.flatten() / variance, dim=0)
    if distributed.world() > 1:
        summed = distributed.total(summed.double().exp()).clamp_min(1e-300).log().to(v.dtype)
    return variance * (summed - float(np.log(distributed.count(distances.numel()))))
