from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.test_cli import SMALL, call, fails, folder  # noqa: F401


def test_pack_fit_embed_and_check(folder: Path) -> None:  # noqa: F811
    given = ["edges.csv", "--nodes", "nodes.csv"]
    done = call("pack", *given, "-o", "graph", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "20 nodes, 20 undirected edges, 2 features, 2 classes" in done.stdout
    done = call("pack", "--check", "graph", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "all checksums match" in done.stdout
    done = call("fit", "graph/", "--out", "runs/packed", "-q", *SMALL, cwd=folder)
    assert done.returncode == 0, done.stderr
    files = [folder / "runs" / run / "embeddings.parquet" for run in ("packed", "mine")]
    assert files[0].read_bytes() == files[1].read_bytes()  # the same graph, the same vectors
    done = call("embed", "runs/packed", "graph", "-o", "again.parquet", cwd=folder)
    assert done.returncode == 0, done.stderr
    done = call("evaluate", "runs/packed", "-q", cwd=folder)
    assert done.returncode == 0, done.stderr


def test_ids_with_spaces_are_counted_and_trim_removes_the_spaces(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target\nn1,n2 \nn2,n3\n n3,n1\n")
    done = call("pack", "edges.csv", "-o", "graph", cwd=tmp_path)
    assert "5 nodes" in done.stdout
    assert "2 ids with spaces around them, which --trim removes" in done.stdout
    done = call("pack", "edges.csv", "-o", "trimmed", "--trim", cwd=tmp_path)
    assert "3 nodes" in done.stdout
    assert "which --trim removes" not in done.stdout


def test_a_packed_graph_goes_with_the_means_of_the_model(
    folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = [f"n{i},,{i % 2},{i}\n" for i in range(20)]  # sizes of another scale
    (folder / "other.csv").write_text("id,label,parity,size\n" + "".join(rows))
    given = ["edges.csv", "--nodes", "other.csv"]
    assert call("pack", *given, "-o", "other", cwd=folder).returncode == 0
    words = fails(["embed", "runs/mine", "other", "-o", "x.csv"], folder, monkeypatch, capsys)
    assert "another encoding of its columns" in words
    assert call("pack", *given, "-o", "alike", "--like", "runs/mine", cwd=folder).returncode == 0
    done = call("embed", "runs/mine", "alike", "-o", "alike.csv", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert call("embed", "runs/mine", *given, "--separate", "-o", "file.csv", cwd=folder).returncode == 0
    assert (folder / "alike.csv").read_text() == (folder / "file.csv").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["pack", "edges.csv"], "give the folder of the packed graph with -o"),
        (["pack", "-o", "x"], "no graph is named"),
        (["pack", "edges.csv", "-o", "runs"], "runs exists already; choose another folder"),
        (["pack", "--check", "runs"], "runs is not a packed graph"),
        (["pack", "--check", "damaged"], "damaged: indices is damaged: an entry is outside 0 to 19"),
        (["fit", "cut", "--out", "runs/cut"], "cut: x has 7 bytes instead of 160"),
        (
            ["fit", "graph2", "--nodes", "nodes.csv", "--out", "runs/x"],
            "nodes applies to edge files only",
        ),
    ],
)
def test_bad_packs_are_one_line(
    arguments: list[str],
    words: str,
    folder: Path,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from dssl import load
    from dssl.graph import packed

    graph = load(folder / "edges.csv", nodes=folder / "nodes.csv")
    for name in ("damaged", "cut", "graph2"):
        if not (folder / name).exists():
            packed.pack(graph, folder / name)
    content = bytearray((folder / "damaged" / "indices").read_bytes())
    content[50] = 99
    (folder / "damaged" / "indices").write_bytes(content)
    (folder / "cut" / "x").write_bytes(b"seven b")
    assert words in fails(arguments, folder, monkeypatch, capsys)
