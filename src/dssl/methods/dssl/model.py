r"""Decoupled self-supervised learning (DSSL).

Xiao, Chen, Guo, Zhuang, Wang: *Decoupled Self-supervised Learning for Non-Homophilous Graphs*, NeurIPS 2022.

Every link :math:`(i, j)` has one of K latent factors. The centre lies near the prototype of the factor, and the
neighbour is the centre plus the shift of the factor:

.. math::
    p(z_j \mid v_i) &= \sum_k p(k \mid v_i)\, p(z_j \mid v_i, k) \tag{1} \\
    p(k \mid v_i) &= \mathrm{softmax}_k(v_i^\top \mu_k / \sigma_1^2) \tag{3} \\
    p(z_j \mid v_i, k) &= \mathcal{N}(z_j;\; v_i + \beta g(k),\; \sigma_2^2 I) \\
    \mathcal{L}_i &= \frac{1}{|N(i)|} \sum_{j \in N(i)} \Big(
        \underbrace{\mathbb{E}_q \|v_i + \beta g(k) - z_j\|^2}_{\text{local}}
        - \sigma_2^2 \underbrace{\mathbb{E}_q \log p(k \mid v_i)}_{\text{global}}
        - \lambda \underbrace{\mathcal{H}(q)}_{\text{entropy}} \Big) \tag{5} \\
    q(k \mid v_i, z_j) &= \mathrm{softmax}_k(h([v_i; z_j])) \tag{6} \\
    c &= \mathrm{softmax}_k\big((h([v_i; z_j]) + \epsilon) / \gamma\big), \quad
        \epsilon \sim \mathrm{Gumbel}(0, 1) \tag{7} \\
    \mu_k &\propto \sum_i \pi_i(k)\, v_i, \qquad
        \pi_i(k) = \frac{1}{|N(i)|} \sum_{j \in N(i)} q(k \mid v_i, z_j) \tag{8}

========================  =========================  ============================================================
symbol                    name                       meaning
========================  =========================  ============================================================
:math:`v_i, z_j`          ``v``, ``z``               unit vectors of centre (online) and neighbour (target encoder)
:math:`\mu_k`             ``prototypes``             unit vector of factor k
:math:`g(k)`              ``shift_network``          shift of factor k: an MLP on the one-hot k
:math:`h`                 ``head``                   inference network
:math:`\beta`             ``shift_scale``            strength of the shift
:math:`\sigma_1^2`        ``prototype_variance``     variance around prototypes
:math:`\sigma_2^2`        ``link_variance``          variance around predictions, with the factor 2 absorbed (A.2)
:math:`\lambda`           ``entropy_weight``         1 in Eq. 5; :math:`\sigma_2^2` follows from A.2
:math:`\gamma`            ``temperature``            of the Gumbel-softmax (Eq. 7)
:math:`\tau`              ``momentum``               of the target encoder: ξ ← τ ξ + (1 − τ) θ
========================  =========================  ============================================================

**Where we differ from the paper, and why** (``preset = "paper"`` turns all of it off; measurements are in
docs/methods/dssl.md):

- The expectation over k is exact, where Eq. 7 draws (``estimator``): K is small, and draws add noise.
- Vectors are centred before they get length one (``center``), or all share one direction and every posterior is equal.
- λ is 0.1, not 1: A.2 gives σ₂², and with 1 the posterior stays uniform.
- The entropy of the mean posterior is rewarded (``balance_weight``), or one factor takes all links.
- A network lies between the embedding and the loss (``projector``): vectors in the loss agree with their neighbours'.
- Linear decoders of features and links (``reconstruction_weight``, ``link_reconstruction_weight``) prevent the collapse
  of all vectors to one, which the moving average does not prevent.
- The posteriors are taught groups of similar links (``distillation_weight``, `dssl.graph.link_mixture`): alone, the
  network h finds planted factors late or never.
- Eq. 8 divides by the norm, as the constraint of its derivation demands, not by its square. Its sums are gathered over
  the batches of an epoch: each node counts once, with the parameters of its batch (``prototype_pass`` takes all nodes
  after the epoch).
- The input of h is scaled to entries of order one (``head_scale``), or the posterior starts uniform.
- No negative sampling, which the paper names for Penn94 and Twitch without details: it did not help.

>>> from dssl import DSSL, Graph
>>> graph = Graph.from_edges([0, 1, 2, 3], [1, 2, 3, 0], x=[[1, 0], [0, 1], [1, 0], [0, 1]])
>>> model = DSSL(num_factors=2, dim=4, epochs=2).fit(graph)
>>> model.factors(graph).nodes.shape
(4, 2)
"""

from __future__ import annotations

import copy
import functools
from typing import ClassVar, Literal, Unpack, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from dssl.graph import Graph
from dssl.methods.base import EncoderMethod, follow
from dssl.methods.dssl import networks, objective, posterior
from dssl.methods.dssl.additions import Additions, AdditionSettings
from dssl.methods.dssl.networks import Head, Hidden, Links, Projection
from dssl.nn import health
from dssl.nn.batches import Batch
from dssl.nn.encoders import Dense, Encoder
from dssl.runtime import distributed
from dssl.runtime.scale import IN_MEMORY, Scale

Floats = NDArray[np.float32]


class DSSLModel(EncoderMethod):
    """The networks and the loss of DSSL.

    Args:
        encoder: the online encoder; the target encoder is its moving average.
        num_factors: K.
        shift_scale: β; 0 removes the semantic shift (ablation A4).
        prototype_variance: σ₁².
        link_variance: σ₂².
        momentum: τ.
        estimator: ``exact`` sums over k; ``gumbel`` draws one k per link, straight through (Eq. 7).
        temperature: γ of the draws.
        inference: ``amortised`` is the network h; ``uniform`` is 1/K (ablation A5).
        head: ``concat`` or ``product`` of v and z as the input of h.
        head_scale: whether that input is scaled to entries of order one.
        local_weight: 0 is ablation A1.
        global_weight: 0 is ablation A2.
        entropy_weight: λ; 0 is ablation A3.
        balance_weight: weight of the entropy of the mean posterior.
        prototype_update: whether Eq. 8 is applied after each epoch.
        prototype_pass: whether its v and q are those of all nodes after the epoch, not those of the epoch's batches.
        center: whether vectors are centred before they are scaled to length one.
        projector: whether a network lies between the embedding and the loss.
        additions: weights and sizes of the terms that the paper does not have (`Additions`).
    """

    augments = False
    advice: ClassVar[dict[str, str]] = {
        "effective_rank": "raise reconstruction_weight, set center = true, or lower learning_rate",
        "factor_usage_max": "raise balance_weight or entropy_weight",
        "factor_information": "set center = true, or lower entropy_weight",
    }

    def __init__(
        self,
        encoder: Encoder,
        *,
        num_factors: int,
        shift_scale: float,
        prototype_variance: float,
        link_variance: float,
        momentum: float,
        estimator: Literal["exact", "gumbel"],
        temperature: float,
        inference: Literal["amortised", "uniform"],
        head: Literal["concat", "product"],
        head_scale: bool,
        local_weight: float,
        global_weight: float,
        entropy_weight: float,
        balance_weight: float,
        prototype_update: bool,
        prototype_pass: bool,
        center: bool,
        projector: bool,
        **additions: Unpack[AdditionSettings],
    ) -> None:
        super().__init__(encoder)
        dim = encoder.dim
        self.num_factors, self.beta = num_factors, shift_scale
        self.prototype_variance, self.link_variance = prototype_variance, link_variance
        self.momentum, self.estimator, self.temperature = momentum, estimator, temperature
        self.local_weight, self.global_weight, self.entropy_weight = local_weight, global_weight, entropy_weight
        self.balance_weight = balance_weight
        self.prototype_update, self.prototype_pass = prototype_update, prototype_pass

        self.projection = Projection(dim, projector=projector, center=center)
        self.shift_network = nn.Sequential(Dense(num_factors, dim), nn.ReLU(), Dense(dim, dim))
        product, uniform = head == "product", inference == "uniform"
        self.head = Head(dim, num_factors, product=product, scaled=head_scale, uniform=uniform)
        self.prototypes = nn.Parameter(torch.randn(num_factors, dim))
        self.additions = Additions(encoder, num_factors=num_factors, uniform=uniform, **additions)
        # Created last, as a copy: it draws nothing, so that every ablation starts from the same weights.
        self.target = copy.deepcopy(self._online()).requires_grad_(False)
        self.register_buffer("prototype_sums", torch.zeros(num_factors, dim), persistent=False)
        self.register_buffer("fitted", torch.zeros((), dtype=torch.bool))  # whether a training began before
        self._links: WeakKeyDictionary[Batch, Links] = WeakKeyDictionary()
        self._trained_on: tuple[Graph, Scale] | None = None
        self._given: Graph | None = None

    def observe(self, graph: Graph) -> None:
        """Set the graph as it was given, with direction and features, for the teacher of the posteriors."""
        self._given = graph

    def prepare(self, graph: Graph, *, seed: int, scale: Scale = IN_MEMORY) -> None:
        """Compute the targets of our additions; a warm start takes over the present factors and decoders."""
        self._trained_on = graph, scale
        embedding, posteriors = None, None
        if bool(self.fitted):
            embedding, (v, z) = self.embed(graph, scale=scale), self.unit_vectors(graph, scale=scale)
            posteriors = functools.partial(self.head, v, z)
        given = graph if self._given is None else self._given
        self.additions.prepare(graph, given=given, embedding=embedding, posteriors=posteriors, seed=seed, scale=scale)
        cast(Tensor, self.fitted).fill_(True)

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss of the batch: Eq. 5, a mean over centres with neighbours, and our additions."""
        links = self._links_of(batch)
        embedding = self.encoder(batch.centres)
        v = self.projection(embedding, batch.num_centres)[: batch.num_centres]
        encoder, projection = self.target
        with torch.no_grad():
            z = projection(encoder(batch), batch.num_centres)
        log_p = objective.log_prior(v, self.prototypes, self.prototype_variance)  # Eq. 3
        hidden = self.head.split(v, z)
        q, local, global_ = self._expectations(links, v, z, log_p, hidden)  # Eq. 6, 7

        sums = torch.cat([torch.stack([local, global_, q.entropy]), q.by_centre.sum(dim=0), links.active])
        sums = distributed.total(sums)
        means = sums[:-1] / sums[-1].clamp_min(1)
        (local, global_, entropy), usage = means[:3].unbind(), means[3:]
        loss = (  # Eq. 5
            self.local_weight * local
            + self.global_weight * self.link_variance * global_
            - self.entropy_weight * entropy
            - self.balance_weight * objective.balance(usage)
        )
        terms = {"local": local, "global": global_, "entropy": entropy}
        logits = functools.partial(self.head, v, z, hidden=hidden)
        for name, (weight, value) in self.additions(batch, embedding, logits).items():
            loss = loss + weight * value
            terms[name] = value
        if self.training:
            cast(Tensor, self.prototype_sums).add_((q.by_centre.T @ v).detach())
            factors = health.factor_statistics(q.usage, q.mean_entropy)
            self.record(batch.num_centres, embedding, {"loss": loss, **terms, **factors})
        return loss

    def after_step(self) -> None:
        """ξ ← τ ξ + (1 − τ) θ, for parameters and running means."""
        follow(self.target, self._online(), self.momentum)

    def after_epoch(self) -> dict[str, float]:
        """Set the prototypes by Eq. 8 and return the epoch's record."""
        sums = distributed.total(cast(Tensor, self.prototype_sums))
        if self.prototype_update:
            with torch.no_grad():
                sums = self._sums_of_all_nodes() if self.prototype_pass else sums
                self.prototypes.copy_(objective.updated_prototypes(sums, self.prototypes))
        cast(Tensor, self.prototype_sums).zero_()
        return super().after_epoch()

    def health_limits(self) -> dict[str, dict[str, float]]:
        """Return the limits beyond which `warnings` reports a collapse."""
        return health.limits(self.encoder.dim, num_factors=self.num_factors)

    def factors(self, graph: Graph, *, scale: Scale = IN_MEMORY) -> tuple[Floats, Floats]:
        """Return q(k | v_i, z_j) of each arc in the graph's order, ``(A, K)``, and q(k | v_i), ``(N, K)``."""
        q, by_node = self.head.of_graph(graph, *self.unit_vectors(graph, scale=scale))
        return q.cpu().numpy(), by_node.cpu().numpy()

    def link_scores(self, graph: Graph, pairs: NDArray[np.int64], *, scale: Scale = IN_MEMORY) -> Floats:
        """Return log p(z_j | v_i) of Eq. 1 up to a constant, the mean of both directions if the graph is undirected.

        Args:
            graph: the graph, with features.
            pairs: positions of the nodes i and j, linked or not, shape ``(M, 2)``.
            scale: whether vectors are computed at once or by blocks.
        """
        v, z = self.unit_vectors(graph, scale=scale)
        start, end = (torch.from_numpy(np.ascontiguousarray(side)).to(v.device) for side in pairs.T)
        with torch.no_grad():
            log_p = objective.log_prior(v, self.prototypes, self.prototype_variance)
            score = functools.partial(objective.log_likelihood, v, z, log_p, self.shifts(), self.link_variance)
            scores = score(start, end) if graph.directed else (score(start, end) + score(end, start)) / 2
        return cast(Floats, scores.cpu().numpy())

    def unit_vectors(self, graph: Graph, *, scale: Scale = IN_MEMORY) -> tuple[Tensor, Tensor]:
        """Return v and z of each node, outside training, shapes ``(N, dim)``."""
        self.eval()
        branches = [cast(tuple[Encoder, Projection], tuple(branch)) for branch in (self._online(), self.target)]
        v, z = networks.unit_vectors(branches, graph, self.prototypes.device, scale=scale)
        return v, z

    def _sums_of_all_nodes(self) -> Tensor:
        """The sums of Eq. 8 with the present parameters, shape ``(K, dim)``."""
        assert self._trained_on is not None
        graph, scale = self._trained_on
        v, z = self.unit_vectors(graph, scale=scale)
        return self.head.of_graph(graph, v, z)[1].T @ v

    def _online(self) -> nn.ModuleList:
        return nn.ModuleList([self.encoder, self.projection])

    def _links_of(self, batch: Batch) -> Links:
        """The links of a batch; those of the whole graph are computed once."""
        if batch not in self._links:
            self._links[batch] = Links.of(batch)
        return self._links[batch]

    def _expectations(
        self, links: Links, v: Tensor, z: Tensor, log_p: Tensor, hidden: Hidden | None
    ) -> tuple[posterior.Posteriors, Tensor, Tensor]:
        """Return the posteriors of the links, and the local and the global term, by the chosen estimator."""
        if self.estimator == "gumbel" and not self.head.uniform:
            rows = posterior.rows(links.weights, v.device)
            logits = self.head(v, z, *rows[:2], hidden)
            local, global_ = objective.sampled_terms(
                rows, logits, v, z, log_p, shift=self._shift, temperature=self.temperature
            )
            return posterior.from_rows(links.weights, logits), local, global_
        q = self.head.posteriors(links, v, z, hidden)
        return q, objective.local_term(links, q, v, z, self.shifts()), objective.global_term(q, log_p)

    def shifts(self) -> Tensor:
        """Return β g(k) for every k, shape ``(K, dim)``."""
        return self._shift(torch.eye(self.num_factors, device=self.prototypes.device))

    def _shift(self, c: Tensor) -> Tensor:
        return self.beta * cast(Tensor, self.shift_network(c))
