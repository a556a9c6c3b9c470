"""What a run has to show: nearest nodes as a loop finds them, columns as they were, and every kind of run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from dssl.config.resolve import resolve
from dssl.config.schema import Config
from dssl.data.load import load
from dssl.errors import RunError
from dssl.explore import view as explore
from dssl.graph import Graph
from dssl.graph.preparation import links
from dssl.runs import run_folder, transform, workflow
from tests import graphs
from tests.views import made


def config(source: str, **flags: object) -> Config:
    return resolve({"graph.source": source, "train.epochs": 1, **flags})


def test_nearest_nodes_are_those_of_a_loop_over_all() -> None:
    view = made(400, dim=3)
    view.unit[7] = 0  # a node without a direction has the cosine 0 with all
    view.unit[30:60] = view.unit[30]  # ties
    places, cosines = view.nearest(20, 50)
    for row, node in enumerate(range(20, 50)):
        scores = {other: float(view.unit[node] @ view.unit[other]) for other in range(400) if other != node}
        wanted = sorted(scores, key=lambda other: (-np.float32(scores[other]), other))[:12]
        np.testing.assert_allclose(cosines[row], [min(scores[other], 1) for other in wanted], atol=1e-6)
        if not 30 <= node < 60:
            assert sorted(places[row]) == sorted(wanted) or np.ptp([scores[w] for w in wanted[-2:]]) < 1e-6
    alike, ones = view.nearest(45, 46)
    assert alike.tolist() == [list(range(30, 42))]
    np.testing.assert_allclose(ones, 1, atol=1e-6)
    nothing, zeros = view.nearest(7, 8)
    assert nothing.tolist() == [[0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12]]
    assert not zeros.any()


def test_a_block_of_nodes_is_answered_as_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    view = made(700, seed=1)
    one_by_one = np.concatenate([view.nearest(node, node + 1)[0] for node in range(40)])
    monkeypatch.setattr(explore, "ROWS_AT_ONCE", 16)
    assert np.array_equal(view.nearest(0, 40)[0], one_by_one)


@pytest.mark.parametrize("make", graphs.ALL, ids=lambda make: make.__name__)
@pytest.mark.parametrize("num_factors", [0, 1, 3])
def test_any_small_graph_has_a_view(make: object, num_factors: int) -> None:
    graph = make()  # type: ignore[operator]
    view = made(graph=graph, num_factors=num_factors)
    assert view.link_q.shape == (graph.num_arcs, num_factors)
    assert view.nearest(0, graph.num_nodes)[0].shape == (graph.num_nodes, min(12, graph.num_nodes - 1))
    assert [column.role for column in view.columns if column.role] == (
        ["label"] * (graph.y is not None) + ["factor"] * (num_factors > 0) + ["degree"]
    )
    for column in view.columns:
        assert column.values.shape == (graph.num_nodes,)


def test_posteriors_of_links_are_rounded_to_255ths() -> None:
    view = made(50, num_factors=4)
    sums = view.link_q.sum(axis=1, dtype=np.int64)
    assert view.link_q.dtype == np.uint8
    assert np.abs(sums - 255).max() <= 2  # four roundings, each of at most one half
    means = np.add.reduceat(view.link_q.astype(np.float64), view.graph.indptr[:-1]) / view.graph.degrees[:, None]
    np.testing.assert_allclose(means / 255, view.node_q, atol=0.5 / 255 + 1e-6)


def test_a_node_without_links_has_no_main_factor_and_degrees_count_both_directions() -> None:
    alone = made(graph=graphs.isolated_node(), num_factors=2)
    main, degree = alone.columns
    assert (main.values[2], degree.values.tolist()) == (-1, [1, 1, 0])
    assert main.values[:2].min() >= 0
    directed = made(graph=graphs.directed())
    assert directed.columns[-1].values.tolist() == [3, 2, 3]
    assert directed.columns[0].values.tolist() == [0, -1, 1]
    assert directed.columns[0].names == ("0", "1")


def test_columns_of_the_node_table_are_as_they_were(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\na,b\nb,c\n")
    (tmp_path / "nodes.csv").write_text(
        "id,age,city,member,label\na,20,Rome,true,x\nb,40,,false,y\nc,33.5,Oslo,true,x\n"
    )
    graph = load(tmp_path / "edges.csv", nodes=tmp_path / "nodes.csv")
    columns = {column.name: column for column in made(graph=graph).columns}
    assert list(columns) == ["label", "main factor", "degree", "age", "city", "member"]
    np.testing.assert_allclose(columns["age"].values, [20, 40, 33.5], rtol=1e-6)
    assert columns["city"].names == ("Oslo", "Rome")
    assert columns["city"].values.tolist() == [1, -1, 0]
    assert columns["member"].values.tolist() == [1, 0, 1]


def test_a_page_is_given_so_many_columns_and_no_more() -> None:
    from dssl.graph.features import encode

    x, _, encoding = encode(pa.table({f"c{i}": [0.0, 1.0, 2.0, float(i)] for i in range(40)}))
    graph = Graph.from_edges([0, 1, 2], [1, 2, 3], x=x, encoding=encoding)
    names = [column.name for column in made(graph=graph, num_factors=0).columns]
    assert names == ["degree", *(f"c{i}" for i in range(explore.MOST_COLUMNS))]


def test_a_view_of_a_run_has_its_factors_and_its_map(tmp_path: Path) -> None:
    workflow.fit(config("synthetic:h=0.2,nodes=40,classes=3,degree=4,seed=1"), tmp_path / "run")
    stages: list[str] = []
    view = explore.of_run(tmp_path / "run", on_stage=stages.append)
    factors = transform.factors(tmp_path / "run")
    assert np.array_equal(view.link_q, np.rint(factors.links * 255))
    assert np.array_equal(view.node_q, factors.nodes)
    assert np.array_equal(view.graph.indices, factors.target)
    vectors = run_folder.read_embeddings(tmp_path / "run")
    assert view.ids.equals(vectors.ids)
    np.testing.assert_allclose(np.linalg.norm(view.unit, axis=1), 1, rtol=1e-5)
    similar, cosines = zip(*vectors.most_similar(vectors.ids[5].as_py(), top=12), strict=True)
    places, own = view.nearest(5, 6)
    assert view.ids.take(pa.array(places[0])).to_pylist() == list(similar)
    np.testing.assert_allclose(own[0], cosines, atol=1e-6)
    assert (tmp_path / "run" / "map.parquet").exists()
    assert stages[0] == "reading vectors, graph and factors"


def test_a_run_of_another_method_has_no_factors(tmp_path: Path) -> None:
    workflow.fit(
        config("synthetic:h=0.2,nodes=40,classes=3,degree=4,seed=1", **{"method.name": "dgi"}), tmp_path / "run"
    )
    view = explore.of_run(tmp_path / "run")
    assert (view.method, view.node_q.shape, view.link_q.shape[1]) == ("dgi", (40, 0), 0)


def test_a_directed_run_keeps_the_direction_of_its_links(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\n" + "".join(f"{i},{(i * 7 + 1) % 30}\n" for i in range(30)))
    workflow.fit(config(str(tmp_path / "edges.csv"), **{"graph.directed": True}), tmp_path / "run")
    view = explore.of_run(tmp_path / "run")
    graph = run_folder.read_graph(tmp_path / "run", "x")
    assert view.graph.directed
    assert np.array_equal(view.graph.indices, links(graph, directed=True, self_loops="remove").indices)


def test_the_run_folder_alone_is_enough_and_a_missing_part_is_one_line(tmp_path: Path) -> None:
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target\na,b\nb,c\nc,a\n")
    workflow.fit(config(str(edges)), tmp_path / "run")
    edges.unlink()
    (tmp_path / "run" / "features.json").unlink()
    assert explore.of_run(tmp_path / "run").graph.num_edges == 3
    (tmp_path / "run" / run_folder.FACTORS).unlink()
    with pytest.raises(RunError, match=r"has no factors \(the files are gone\), which `dssl explore` needs") as error:
        explore.of_run(tmp_path / "run")
    assert "\n" not in str(error.value)
    with pytest.raises(RunError, match="not a run folder"):
        explore.of_run(tmp_path)


def test_what_a_browser_cannot_hold_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    workflow.fit(config("synthetic:h=0.2,nodes=40,classes=3,degree=4,seed=1"), tmp_path / "run")
    monkeypatch.setattr(explore, "MOST_BYTES", 1000)
    with pytest.raises(RunError, match=r"would hold .* GB of links and ids, and the limit"):
        explore.of_run(tmp_path / "run")


def test_links_are_counted_by_factor_and_kind(tmp_path: Path) -> None:
    rows = "".join(f"{i},{(i * 7 + 1) % 30},{'call' if i % 3 else 'import'}\n" for i in range(30))
    (tmp_path / "edges.csv").write_text("source,target,why\n" + rows)
    workflow.fit(config(str(tmp_path / "edges.csv"), **{"graph.kind_column": "why"}), tmp_path / "run")
    view = explore.of_run(tmp_path / "run")
    assert view.kinds is not None
    names, table = view.kinds
    graph = run_folder.read_graph(tmp_path / "run", "x")
    assert graph.kinds is not None and names == ("call", "import")
    factors = transform.factors(tmp_path / "run")
    wanted = np.zeros_like(table)
    arcs = list(zip(graph.sources().tolist(), graph.indices.tolist(), strict=True))
    for row, ends in enumerate(zip(factors.source.tolist(), factors.target.tolist(), strict=True)):
        if ends in arcs:
            wanted[factors.links[row].argmax(), graph.kinds[arcs.index(ends)]] += 1
    np.testing.assert_array_equal(table, wanted)
