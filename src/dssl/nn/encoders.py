"""Encoders: (features, links) -> one vector per node, for any method.

GCN, GraphSAGE, GIN and the hops encoder are built on `Operator` products, which keep sparse features sparse and
are several times faster on a CPU than PyG's scatter-based layers. GAT has the parameters of PyG's layer.
"""

from __future__ import annotations

import copy
import itertools
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dssl.errors import ConfigError, nearest
from dssl.kernels.fused import PReLU
from dssl.nn.batches import Batch
from dssl.nn.operators import Operator, attention
from dssl.runtime import distributed

# An effective rank of a quarter of the vector's length counts as healthy. Fewer features than that cannot give it by
# themselves; the activation can if hidden values are normalised (Minesweeper, 7 features, 64 columns: effective rank
# 21.3 instead of 13.0, at the same accuracy).
FEW = 0.25
ROWS = 2048  # nodes that hops encodes at once without gradients


class Dense(nn.Module):
    """x W + b with Glorot weights and a zero bias, for dense or sparse x.

    torch's default bias with row-normalised bags of words makes all nodes nearly equal at the start.
    """

    def __init__(self, in_dim: int, out_dim: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(in_dim, out_dim))
        self.bias = nn.Parameter(torch.zeros(out_dim)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights, and set the bias to zero."""
        nn.init.xavier_uniform_(self.weight)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def forward(self, x: Tensor | Operator) -> Tensor:
        """Map x of shape ``(n, in_dim)`` to ``(n, out_dim)``."""
        if self.bias is None:
            return x @ self.weight
        if isinstance(x, Tensor) and x.dim() == 2:
            return torch.addmm(self.bias, x, self.weight)
        return x @ self.weight + self.bias


class BatchNorm(nn.BatchNorm1d):
    """Batch normalisation by the mean and variance of the batch's centres, of all processes.

    In an epoch each node is a centre once; as a neighbour it is sampled the more often the more links it has.

    A batch of one centre has no variance and is normalised by the running means.
    """

    of_all_processes = True

    def forward(self, h: Tensor, count: int | None = None) -> Tensor:
        """Normalise h of shape ``(n, dim)``, of which the first ``count`` rows are centres; by default all."""
        count = len(h) if count is None else count
        if not self.training or (count == len(h) > 1 and distributed.world() == 1):
            return super().forward(h)
        mean, number = distributed.mean_rows(h[:count])
        if number == 1:
            return F.batch_norm(h, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps)
        variance, _ = distributed.mean_rows((h[:count] - mean).square())
        with torch.no_grad():
            for kept, new in ((self.running_mean, mean), (self.running_var, variance * number / (number - 1))):
                cast(Tensor, kept).lerp_(new, cast(float, self.momentum))
            cast(Tensor, self.num_batches_tracked).add_(1)
        return (h - mean) * torch.rsqrt(variance + self.eps) * self.weight + self.bias


class Layers(nn.Sequential):
    """Modules one after the other, where normalisation takes its statistics from the centres."""

    def forward(self, h: Tensor, count: int | None = None) -> Tensor:
        """Map h of shape ``(n, dim)``, of which the first ``count`` rows are centres; by default all."""
        for module in self:
            h = module(h, count) if isinstance(module, BatchNorm) else module(h)
        return h


class Encoder(nn.Module):
    """Base of the built-in encoders.

    Attributes:
        in_dim: number of features F.
        dim: length of the vectors.
        hops: how many steps of message passing a vector depends on.
        averages: how many averages over neighbours it takes in place of links, where a batch has them; 0 for one
            that needs the links themselves.
    """

    in_dim: int
    dim: int
    hops: int
    averages: int = 0

    def reset_parameters(self) -> None:
        """Draw all parameters again with torch's generator, as at construction."""
        for part in self.children():
            reset(part)

    def forward(self, batch: Batch) -> Tensor:
        """Return one vector per node of the batch, shape ``(n, dim)``."""
        raise NotImplementedError


class Stack(Encoder):
    """Layers with activation, normalisation and dropout between them."""

    def __init__(self, sizes: list[int], *, dropout: float, batch_norm: bool) -> None:
        super().__init__()
        self.in_dim, self.dim, self.hops = sizes[0], sizes[-1], len(sizes) - 1
        self.layers = nn.ModuleList(self.layer(a, b) for a, b in itertools.pairwise(sizes))
        self.between = nn.ModuleList(
            Layers(BatchNorm(size) if batch_norm else nn.Identity(), PReLU(), nn.Dropout(dropout))
            for size in sizes[1:-1]
        )

    def layer(self, in_dim: int, out_dim: int) -> nn.Module:
        """Make the parameters of one layer."""
        return Dense(in_dim, out_dim)

    def own(self, layer: nn.Module, h: Tensor | Operator) -> Tensor:
        """Apply the part of a layer that needs no links, h of shape ``(n, in_dim)``."""
        raise NotImplementedError

    def mixed(self, layer: nn.Module, h: Tensor, batch: Batch) -> Tensor:
        """Apply the part of a layer that needs the links to the result of `own`, shape ``(n, out_dim)``."""
        raise NotImplementedError

    def forward(self, batch: Batch) -> Tensor:
        """Return one vector per node of the batch, shape ``(n, dim)``."""
        h: Tensor | Operator = batch.x
        for number, layer in enumerate(self.layers):
            h = self.mixed(layer, self.own(layer, h), batch)
            if number < len(self.between):
                h = self.between[number](h, batch.num_centres)
        return cast(Tensor, h)


class GCN(Stack):
    """Graph convolutional network (Kipf & Welling 2017): H ← S H W + b."""

    def own(self, layer: nn.Module, h: Tensor | Operator) -> Tensor:  # noqa: D102
        return h @ cast(Dense, layer).weight

    def mixed(self, layer: nn.Module, h: Tensor, batch: Batch) -> Tensor:  # noqa: D102
        bias = cast(Dense, layer).bias
        return batch.gcn @ h if bias is None else (batch.gcn @ h).add_(bias)


class MLP(Stack):
    """The node's own features alone: H ← H W + b."""

    def __init__(self, sizes: list[int], *, dropout: float, batch_norm: bool) -> None:
        super().__init__(sizes, dropout=dropout, batch_norm=batch_norm)
        self.hops = 0

    def own(self, layer: nn.Module, h: Tensor | Operator) -> Tensor:  # noqa: D102
        return cast(Tensor, layer(h))

    def mixed(self, layer: nn.Module, h: Tensor, batch: Batch) -> Tensor:  # noqa: ARG002, D102
        return h


class SAGE(Stack):
    """GraphSAGE with the mean (Hamilton et al. 2017): H ← H W₀ + P H W₁ + b."""

    def layer(self, in_dim: int, out_dim: int) -> nn.Module:  # noqa: D102
        return nn.ModuleList([Dense(in_dim, out_dim), Dense(in_dim, out_dim, bias=False)])

    def own(self, layer: nn.Module, h: Tensor | Operator) -> Tensor:  # noqa: D102
        return torch.cat([part(h) for part in cast(nn.ModuleList, layer)], dim=1)

    def mixed(self, layer: nn.Module, h: Tensor, batch: Batch) -> Tensor:  # noqa: ARG002, D102
        own, others = h.chunk(2, dim=1)
        return own + batch.mean @ others


class GIN(Stack):
    """Graph isomorphism network (Xu et al. 2019): H ← MLP((1 + ε) H + A H), with log-free sums of neighbours."""

    def layer(self, in_dim: int, out_dim: int) -> nn.Module:  # noqa: D102
        return nn.ModuleList([Dense(in_dim, out_dim), PReLU(), Dense(out_dim, out_dim), _Scale()])

    def own(self, layer: nn.Module, h: Tensor | Operator) -> Tensor:  # noqa: D102
        # (A H) W = A (H W): the narrow side is multiplied first.
        return h @ cast(Dense, cast(nn.ModuleList, layer)[0]).weight

    def mixed(self, layer: nn.Module, h: Tensor, batch: Batch) -> Tensor:  # noqa: D102
        first, activation, second, scale = cast(nn.ModuleList, layer)
        return cast(Tensor, second(activation(scale(h) + batch.sum @ h + first.bias)))


class _Scale(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.epsilon = nn.Parameter(torch.zeros(()))

    def reset_parameters(self) -> None:
        nn.init.zeros_(self.epsilon)

    def forward(self, h: Tensor) -> Tensor:
        return (1 + self.epsilon) * h


class GAT(Stack):
    """Graph attention network (Veličković et al. 2018), by PyG's layer; heads are averaged in the last layer."""

    def __init__(self, sizes: list[int], *, dropout: float, batch_norm: bool, heads: int = 4) -> None:
        self.heads = heads
        super().__init__(sizes, dropout=dropout, batch_norm=batch_norm)

    def layer(self, in_dim: int, out_dim: int) -> nn.Module:  # noqa: D102
        from torch_geometric.nn import GATConv

        # The transformation is ours, so that sparse features stay sparse; PyG's layer then starts from out_dim.
        return nn.ModuleList([Dense(in_dim, out_dim, bias=False), GATConv(out_dim, out_dim, self.heads, concat=False)])

    def own(self, layer: nn.Module, h: Tensor | Operator) -> Tensor:  # noqa: D102
        return cast(Tensor, cast(nn.ModuleList, layer)[0](h))

    def mixed(self, layer: nn.Module, h: Tensor, batch: Batch) -> Tensor:  # noqa: D102
        conv: Any = cast(nn.ModuleList, layer)[1]  # its equations without its array of a row per arc and head
        x = conv.lin(h).view(len(h), self.heads, -1)
        own, other = (x * conv.att_dst).sum(dim=2), (x * conv.att_src).sum(dim=2)
        return attention(x, own, other, batch.edge_index, conv.negative_slope) + cast(Tensor, conv.bias)


class Hops(Encoder):
    """Ego, 1-hop and 2-hop means kept apart: [X W₀ | P X W₁ | … | P^L X W_L] → PReLU → W.

    For graphs whose neighbours are not similar: the node's own features are never mixed into an average. With
    ``high_pass`` there is a block more, (I − P) X W: how a node differs from its neighbours.
    """

    def __init__(self, sizes: list[int], *, hops: int, dropout: float, batch_norm: bool, high_pass: bool) -> None:
        super().__init__()
        self.in_dim, hidden_dim, self.dim = sizes
        self.hops = self.averages = hops
        self.blocks = nn.ModuleList(Dense(self.in_dim, hidden_dim) for _ in range(hops + 1))
        self.difference = Dense(self.in_dim, hidden_dim, bias=False) if high_pass else None
        width = hidden_dim * (hops + 1 + high_pass)
        self.norm = BatchNorm(width) if batch_norm else nn.Identity()
        self.activation = PReLU()
        self.dropout = nn.Dropout(dropout)
        self.out = Dense(width, self.dim)

    def forward(self, batch: Batch) -> Tensor:
        """Return one vector per node of the batch, shape ``(n, dim)``."""
        if batch.averages is not None:
            alike = not self.training or (self.dropout.p == 0 and not isinstance(self.norm, BatchNorm))
            if torch.is_grad_enabled() or not alike:
                return self.joined(self._from_averages(batch.x, batch.averages), batch.num_centres)
            # Rows are independent, and hidden values of a few rows stay in the cache.
            rows = zip(*(torch.split(part, ROWS) for part in (cast(Tensor, batch.x), batch.averages)), strict=True)
            return torch.cat([self.joined(self._from_averages(*part)) for part in rows])
        parts = []
        for hop, block in enumerate(self.blocks):
            h = block(batch.x)
            for _ in range(hop):
                h = batch.mean @ h
            parts.append(h)
        if self.difference is not None:
            h = self.difference(batch.x)
            parts.append(h - batch.mean @ h)
        return self.joined(parts, batch.num_centres)

    def joined(self, parts: list[Tensor], count: int | None = None) -> Tensor:
        """Return the vectors that the blocks of hidden values become, each of shape ``(n, hidden_dim)``."""
        h = torch.cat(parts, dim=1)
        if isinstance(self.norm, BatchNorm):
            h = self.norm(h, count)
        return cast(Tensor, self.out(self.dropout(self.activation(h))))

    def _from_averages(self, x: Tensor | Operator, averages: Tensor) -> list[Tensor]:
        """The blocks by P (X W + 1 b) = (P X) W + (P 1) b, and so on."""
        known = averages.chunk(self.hops, dim=1)  # [P X | P 1], [P² X | P² 1], …
        blocks = [cast(Dense, block) for block in self.blocks]
        parts = [blocks[0](x)]
        for mean, block in zip(known, blocks[1:], strict=True):
            parts.append(mean @ torch.cat([block.weight, cast(Tensor, block.bias)[None]]))
        if self.difference is not None:
            parts.append((cast(Tensor, x) - known[0][:, :-1]) @ self.difference.weight)
        return parts


STACKS: dict[str, type[Stack]] = {"gcn": GCN, "gat": GAT, "sage": SAGE, "gin": GIN, "mlp": MLP}
NAMES = (*STACKS, "hops")


class Wrapped(Encoder):
    """Any user-supplied module with the signature ``module(x, edge_index)``, as PyG's models have.

    Args:
        module: the module; it returns shape ``(n, dim)``.
        in_dim: number of features F.
        dim: length of its vectors.
        hops: how many steps of message passing it makes (for mini-batches).
    """

    def __init__(self, module: nn.Module, *, in_dim: int, dim: int, hops: int = 2) -> None:
        super().__init__()
        self.module, self.in_dim, self.dim, self.hops = module, in_dim, dim, hops

    def forward(self, batch: Batch) -> Tensor:
        """Return one vector per node of the batch, shape ``(n, dim)``."""
        x = batch.x.dense() if isinstance(batch.x, Operator) else batch.x
        return cast(Tensor, self.module(x, batch.edge_index))


def reset(module: nn.Module) -> None:
    """Draw the parameters of a module again: by its ``reset_parameters``, or by those of its parts."""
    own = getattr(module, "reset_parameters", None)
    if callable(own):
        own()
        return
    for part in module.children():
        reset(part)


def width(module: nn.Module) -> int:
    """Return the length of the vectors of a user's module, from its attribute ``out_channels`` or ``dim``."""
    for name in ("out_channels", "dim"):
        value = getattr(module, name, None)
        if isinstance(value, int) and value > 0:
            return value
    raise ConfigError(
        f"the encoder {type(module).__name__} has no attribute out_channels or dim: set dim to the length of its rows"
    )


def wrapped(module: nn.Module, *, in_dim: int, dim: int, hops: int) -> Wrapped:
    """Return a copy of a user's module as an encoder, after a trial on two linked nodes."""
    own = copy.deepcopy(module).cpu()
    training = own.training
    name = type(module).__name__
    try:
        with torch.no_grad():
            out = own.eval()(torch.zeros(2, in_dim), torch.tensor([[0, 1], [1, 0]]))
    except Exception as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(
            f"the encoder {name} fails on x of shape (2, {in_dim}) and edge_index of shape (2, 2): {reason:.200}"
        ) from error
    if not isinstance(out, Tensor) or out.shape != (2, dim):
        got = f"shape {tuple(out.shape)}" if isinstance(out, Tensor) else type(out).__name__
        raise ConfigError(f"the encoder {name} gives {got} for two nodes; it must give shape (2, {dim}), or set dim")
    return Wrapped(own.train(training), in_dim=in_dim, dim=dim, hops=hops)


def build(
    name: str,
    *,
    in_dim: int,
    dim: int,
    hidden_dim: int,
    layers: int,
    dropout: float,
    batch_norm: bool | None,
    high_pass: bool = False,
) -> Encoder:
    """Make a built-in encoder by name.

    Args:
        name: one of `NAMES`.
        in_dim: number of features F.
        dim: size of the vectors.
        hidden_dim: size of the layers before the last.
        layers: number of layers, or of hops.
        dropout: fraction of hidden values dropped in training.
        batch_norm: normalise hidden values over the batch; by default hops does with few features: see `FEW`.
        high_pass: of the hops encoder: also the differences to the neighbours.
    """
    if name == "hops":
        batch_norm = in_dim < FEW * dim if batch_norm is None else batch_norm
        return Hops([in_dim, hidden_dim, dim], hops=layers, dropout=dropout, batch_norm=batch_norm, high_pass=high_pass)
    if name not in STACKS:
        raise ConfigError(f"encoder {name!r} is unknown; choose one of {', '.join(NAMES)}{nearest(name, NAMES)}")
    sizes = [in_dim, *[hidden_dim] * (layers - 1), dim]
    return STACKS[name](sizes, dropout=dropout, batch_norm=bool(batch_norm))
