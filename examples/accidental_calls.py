"""Which of the calls between my modules are accidental? Calls whose factor is unusual for their module.

python examples/accidental_calls.py [--package email] [--epochs 100]
"""

from __future__ import annotations

import argparse
from collections import defaultdict

import numpy as np

import dssl


def module_of(graph: dssl.Graph) -> list[str]:
    """Return the module of each node: the longest beginning of its dotted name that is a module."""
    assert graph.y is not None and graph.class_names is not None
    names = [str(name) for name in graph.ids]
    modules = {name for name, label in zip(names, graph.y, strict=True) if graph.class_names[label] == "module"}
    found = []
    for name in names:
        while name not in modules and "." in name:
            name = name.rpartition(".")[0]
        found.append(name)
    return found


def main() -> None:
    """Fit the graph of a package, and list the calls between modules that have an unusual factor."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--package", default="email", help="an installed package, or one of the standard library")
    parser.add_argument("--epochs", type=int, default=100, help="passes over the graph")
    options = parser.parse_args()
    graph = dssl.load(f"python:{options.package}")
    model = dssl.DSSL(num_factors=8, epochs=options.epochs, seed=0).fit(graph)  # kinds and labels are not used
    factors = model.factors(graph)
    names = [str(factor) for factor in factors.describe()]

    assert graph.kinds is not None and graph.kind_names is not None
    place = {ends: row for row, ends in enumerate(zip(factors.source.tolist(), factors.target.tolist(), strict=True))}
    module, call = module_of(graph), graph.kind_names.index("call")
    arcs = zip(graph.sources().tolist(), graph.indices.tolist(), graph.kinds.tolist(), strict=True)
    calls = [(i, j) for i, j, kind in arcs if kind == call and module[i] != module[j] and i != j]
    leaving = defaultdict(list)
    for ends in calls:
        leaving[module[ends[0]]].append(place[ends])

    found = []
    for ends in calls:
        others = [row for row in leaving[module[ends[0]]] if row != place[ends]]
        usual = factors.links[others].mean(axis=0) if others else factors.links.mean(axis=0)
        own = factors.links[place[ends]]
        found.append((float(own @ np.log(usual + 1e-6)), ends, int(own.argmax())))
    print(f"{len(calls)} calls between modules of {options.package}; the most unusual ones for their module:")
    for value, (i, j), factor in sorted(found)[:10]:
        print(f"{value:6.2f}  {graph.ids[i]} → {graph.ids[j]}  [{names[factor]}]")


if __name__ == "__main__":
    main()
