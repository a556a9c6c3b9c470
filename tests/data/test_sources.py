"""Other sources of edges: GraphML and standard input."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import dssl
from dssl.config.resolve import resolve
from dssl.data import standard_input
from dssl.data.load import read_graph
from dssl.errors import GraphError


def test_graphml_is_the_graph_of_networkx(tmp_path: Path) -> None:
    graph = nx.DiGraph()
    for name, age, team in (("ann", 31, "x"), ("bob", 45, "y"), ("eve", 27, "x")):
        graph.add_node(name, age=age, team=team)
    graph.add_edge("ann", "bob", strength=2.5)
    graph.add_edge("bob", "eve", strength=1.0)
    nx.write_graphml(graph, tmp_path / "people.graphml")
    read = dssl.load(tmp_path / "people.graphml", label_column="team", weight_column="strength")
    alike = dssl.from_networkx(graph, label="team", weight="strength", name="people")
    assert read.fingerprint() == alike.fingerprint()
    assert (read.name, read.directed, read.feature_names, read.class_names) == ("people", True, ("age",), ("x", "y"))


def test_a_command_reads_graphml_with_the_settings_of_a_run(tmp_path: Path) -> None:
    nx.write_graphml(nx.path_graph(3), tmp_path / "path.graphml")
    config = resolve({"source": str(tmp_path / "path.graphml")})
    assert read_graph(config.graph).num_nodes == 3
    with pytest.raises(GraphError, match="nodes applies to edge lists"):
        read_graph(config.graph.model_copy(update={"nodes": "nodes.csv"}))


# Ten entities, each ten times the one before: ten thousand million characters from one kilobyte.
_GROWING = (
    "<!DOCTYPE graphml [<!ENTITY a0 'text'>"
    + "".join(f"<!ENTITY a{i} '{f'&a{i - 1};' * 10}'>" for i in range(1, 11))
    + "]><graphml><graph edgedefault='directed'><node id='&a10;'/></graph></graphml>"
)
_OUTSIDE = "<!DOCTYPE g [<!ENTITY f SYSTEM 'file:///etc/passwd'>]><graphml><graph><node id='&f;'/></graph></graphml>"


@pytest.mark.parametrize("text", ["", "<graphml>", "<html></html>", "source,target\n1,2\n", _GROWING, _OUTSIDE])
def test_a_file_that_is_no_graphml_is_one_line(text: str, tmp_path: Path) -> None:
    (tmp_path / "g.graphml").write_text(text)
    with pytest.raises(GraphError, match=r"g\.graphml") as caught:
        dssl.load(tmp_path / "g.graphml")
    assert "\n" not in str(caught.value)


def test_options_of_edge_lists_are_refused_for_graphml(tmp_path: Path) -> None:
    nx.write_graphml(nx.path_graph(3), tmp_path / "g.graphml")
    with pytest.raises(GraphError, match="nodes applies to edge lists"):
        dssl.load(tmp_path / "g.graphml", nodes=tmp_path / "n.csv")


def test_edges_come_from_standard_input(tmp_path: Path) -> None:
    text = "source,target\n3,1\n1,2\n"
    script = "import dssl; g = dssl.load('-'); print(g.ids.to_pylist(), g.num_edges, g.name)"
    done = subprocess.run([sys.executable, "-c", script], input=text, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "[1, 2, 3] 2 graph", done.stderr
    wrong = subprocess.run(
        [sys.executable, "-m", "dssl", "inspect", "-"], input="a\n", capture_output=True, text=True, check=False
    )
    assert wrong.returncode == 2
    assert wrong.stderr.startswith("dssl: error: standard input")


def test_an_empty_standard_input_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty:
        buffer = io.BytesIO()

        @staticmethod
        def isatty() -> bool:
            return False

    standard_input.copied.cache_clear()
    monkeypatch.setattr(sys, "stdin", Empty)
    with pytest.raises(GraphError, match="standard input is empty"):
        dssl.load("-")
    standard_input.copied.cache_clear()


def test_a_matrix_of_edges_survives_the_round_trip(tmp_path: Path) -> None:
    made = nx.gnm_random_graph(20, 40, seed=1)
    nx.write_graphml(made, tmp_path / "g.graphml")
    read = dssl.load(tmp_path / "g.graphml")
    order = [int(node) for node in read.ids.to_pylist()]
    np.testing.assert_array_equal(read.adjacency().toarray(), nx.to_numpy_array(made, nodelist=order))
