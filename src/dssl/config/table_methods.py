"""The settings of the methods that train a vector per node; the registry is `dssl.config.methods.METHODS`."""

from __future__ import annotations

from typing import Any

from dssl.config.registry import MethodSection, Range, setting, table_traits

WALKS = (5, 10, 20, 40, 80)  # search values of the length of a walk


def _step_size() -> Any:
    return setting(0.025, "Step size of the first epoch; it falls linearly towards 0.", gt=0, search=Range(0.01, 0.1))


class DeepWalkSettings(MethodSection):
    """Skip-gram on random walks; ``train.epochs`` is the number of walks per node."""

    traits = table_traits(
        "deepwalk",
        "dssl.methods.node2vec:Node2Vec",
        "Perozzi et al., KDD 2014",
        scales="walks; one thread, no matrix",
        epochs=40,
        revision=2,
    )
    walk_length: int = setting(40, "Steps of a walk [t].", ge=1, search=WALKS)
    window: int = setting(10, "Maximum distance of a pair along a walk [w].", ge=1, search=(2, 5, 10))
    negatives: int = setting(5, "Negative samples per pair.", ge=1)
    step_size: float = _step_size()


class Node2VecSettings(MethodSection):
    """Skip-gram on biased walks; ``train.epochs`` is the number of walks per node."""

    traits = table_traits(
        "node2vec",
        "dssl.methods.node2vec:Node2Vec",
        "Grover & Leskovec, KDD 2016",
        scales="walks; one thread, no matrix",
        epochs=20,
        revision=2,
    )
    return_weight: float = setting(
        1.0, "Divisor of the probability to return to the previous node [p].", gt=0, search=(0.25, 0.5, 1.0, 2.0, 4.0)
    )
    away_weight: float = setting(
        0.5,
        "Divisor of the probability to move away from the previous node [q].",
        gt=0,
        search=(0.25, 0.5, 1.0, 2.0, 4.0),
    )
    walk_length: int = setting(80, "Steps of a walk [l].", ge=1, search=WALKS)
    window: int = setting(10, "Maximum distance of a pair along a walk [k].", ge=1, search=(2, 5, 10))
    negatives: int = setting(5, "Negative samples per pair.", ge=1)
    step_size: float = _step_size()


class LINESettings(MethodSection):
    """First- and second-order proximity, side by side."""

    traits = table_traits(
        "line", "dssl.methods.line:LINE", "Tang et al., WWW 2015", scales="links; one thread, no matrix", epochs=500
    )
    negatives: int = setting(5, "Negative samples per link [K].", ge=1)
    step_size: float = _step_size()


class Struc2VecSettings(MethodSection):
    """Skip-gram on walks between structurally similar nodes; ``train.epochs`` is the number of walks per node."""

    traits = table_traits(
        "struc2vec",
        "dssl.methods.struc2vec:Struc2Vec",
        "Ribeiro et al., KDD 2017",
        scales="N log N pairs, N rings",
        epochs=10,
        weighted=False,
    )
    rings: int = setting(
        4, "Rings around a node that are compared; the node is the first [K].", ge=1, le=16, search=(2, 3, 4, 6)
    )
    stay: float = setting(
        0.3, "Probability of a walk to stay in its layer [q].", gt=0, le=1, search=(0.1, 0.3, 0.5, 0.7)
    )
    walk_length: int = setting(80, "Steps of a walk.", ge=1, search=WALKS)
    window: int = setting(10, "Maximum distance of a pair along a walk.", ge=1, search=(2, 5, 10))
    negatives: int = setting(5, "Negative samples per pair.", ge=1)
    step_size: float = _step_size()
