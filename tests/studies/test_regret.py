"""Regret is the distance to the best row of a graph, among rows of equal width and among all."""

from __future__ import annotations

from pathlib import Path

import pytest

from dssl.config.resolve import resolve
from dssl.errors import ConfigError
from dssl.studies import experiments, regret
from dssl.studies.entries import Entry, method_entries
from dssl.studies.experiments import Job
from dssl.studies.paper import plans
from dssl.studies.paper import reproduce as studies
from dssl.studies.paper.plans import Options
from dssl.studies.paper.reproduce import reproduce
from dssl.studies.records import Record, records

TINY = "synthetic:h=0.3,nodes=200,classes=3,degree=6,features=8"
# accuracy by row and graph, and the columns of each row
VALUES = {"a": {"cora": 0.8, "texas": 0.5}, "b": {"cora": 0.7, "texas": 0.7}, "wide": {"cora": 0.9, "texas": 0.6}}
WIDTHS = {"a": 64, "b": 32, "wide": 512}


def results(measure: str = "5%") -> list[tuple[Entry, Record]]:
    found = []
    for row, by_graph in VALUES.items():
        for graph, value in by_graph.items():
            for seed, change in enumerate((-0.01, 0.01)):  # seeds are averaged
                job = Job(graph, row, seed=seed)
                view = {"width": WIDTHS[row], "budgets": {measure: [value + change, value + change]}}
                record = Record(key=job.key, graph=graph, row=row, seed=seed, views={"embedding": view})
                found.append((Entry(job, row, graph), record))
    return found


def test_regret_is_the_distance_to_the_best_of_equal_width_or_of_all() -> None:
    scores = regret.Scores.of(results())
    narrow, every = scores.regret("5%", width=64), scores.regret("5%")
    assert narrow["a"] == pytest.approx({"cora": 0, "texas": 20})
    assert narrow["b"] == pytest.approx({"cora": 10, "texas": 0})
    assert "wide" not in narrow
    assert every["a"] == pytest.approx({"cora": 10, "texas": 20})
    assert every["wide"] == pytest.approx({"cora": 0, "texas": 10})
    page = regret.markdown(scores, notes=["Note."], remarks=["Remark."])
    assert "## 64 columns, the graphs of the design" in page
    assert "| b | 5.0 / 10.0 |" in page and "| a | 10.0 / 20.0 |" in page
    assert page.index("| b | 5.0") < page.index("| a | 10.0")  # best first
    assert "| wide | 5.0 / 10.0 |" in page.split("## Any width")[1]
    assert "the other graphs" not in page
    lines = regret.csv(scores).splitlines()
    assert "5%,cora,design,a,64,80.0000,2,0.0000,10.0000" in lines
    assert "5%,cora,design,wide,512,90.0000,2,,0.0000" in lines


def test_graphs_of_the_design_and_others_are_apart() -> None:
    moved = {"texas": "pubmed", "cora": "cora"}
    found = [(Entry(entry.job, entry.row, moved[entry.column]), record) for entry, record in results("60%")]
    page = regret.markdown(regret.Scores.of(found), notes=[], remarks=[])
    assert "1 graphs: cora." in page and "1 graphs: pubmed." in page


def test_rows_are_data_and_are_chosen_by_name() -> None:
    names = [row.name for row in regret.rows()]
    assert len(set(names)) == len(names)
    for name in ("dssl 64", "dssl 512", "closed form", "dgi", "directed-adjacency 64", "row-scaled 64", "all blocks"):
        assert name in names
    assert next(row.name for row in regret.chosen_rows(["dgi"])) == "dgi"
    with pytest.raises(ConfigError, match="unknown row 'dig', did you mean 'dgi'"):
        regret.chosen_rows(["dig"])


def test_one_training_serves_all_budgets_and_links_have_their_own() -> None:
    entries = regret.plan([TINY], ["dgi", "raw"])
    jobs = experiments.jobs_by_key(entry.job for entry in entries).values()
    trained = [job for job in jobs if job.row == "dgi"]
    assert sorted((job.seed, job.hide_links, job.split_seed) for job in trained) == [
        (0, False, 0),
        *((0, True, draw) for draw in range(regret.DRAWS)),
        (1, False, 0),
        (2, False, 0),
    ]
    assert all(job.budgets == ("60%", "5%", "20/class") for job in jobs if not job.hide_links)  # 1% is two nodes
    raw = [job for job in jobs if job.baseline == "raw"]
    assert sorted(str(job.settings["width"]) for job in raw if not job.hide_links) == ["256", "64"]


def test_few_methods_are_trained_on_topics_with_one_seed() -> None:
    entries = [e for e in regret.plan([TINY]) if e.row.endswith(", topics") and not e.job.hide_links]
    assert sorted(e.row.removesuffix(", topics") for e in entries) == sorted(regret.ON_TOPICS)
    assert {e.job.seed for e in entries} == {0}
    assert {e.job.seed for e in regret.plan([TINY]) if e.row == "dgi" and not e.job.hide_links} == {0, 1, 2}


def test_wide_vectors_have_one_seed_and_rank_no_links() -> None:
    entries = [e for e in regret.plan([TINY]) if e.row in ("dssl 512", "raw 256", "all blocks")]
    assert [(e.row, e.job.seed, e.job.hide_links) for e in entries] == [
        ("dssl 512", 0, False),
        ("raw 256", 0, False),
        ("all blocks", 0, False),
    ]
    assert sum(e.job.hide_links for e in regret.plan([TINY], ["dssl 128", "raw 64"])) == 2 * regret.DRAWS


def test_one_draw_of_held_out_links_where_there_are_many() -> None:
    entries = regret.plan([TINY.replace("nodes=200", "nodes=400")], ["raw 64"])
    assert [e.job.split_seed for e in entries if e.job.hide_links] == [0]


def test_tables_1_and_7_take_the_trainings_of_regret() -> None:
    table7 = plans.synthetic_spec(0.5)
    jobs = [entry.job for entry in regret.plan([TINY, table7], ["dssl 64", "dgi", "gae"])]
    wanted = [entry.job for name in ("dgi", "gae", "dssl") for entry in method_entries(name, TINY, seeds=range(3))]
    chosen = [entry.job for entry in plans.synthetic(plans.Options(methods=("dgi", "dssl"), seeds=1))]
    wanted += [job for job in chosen if job.graph == table7]
    assert len(wanted) == 3 * 2 + 3 * 2 + 3
    for job in wanted:
        assert any(one.covers(job) for one in jobs), job
    own = {entry.row: entry.job for entry in regret.plan([TINY], ["dssl 64", "dssl, trained part"], seeds=1)}
    assert own["dssl 64"] == own["dssl, trained part"]
    assert resolve({}).encoder.dim == regret.WIDTH


def test_a_part_of_the_table_runs_from_the_graph_to_the_files_and_is_not_done_twice(tmp_path: Path) -> None:
    options = Options(datasets=(TINY,), rows=("raw 64", "spectral 64", "closed form"), quick=True)
    seen: list[bool] = []
    for _ in range(2):
        written = reproduce(
            "regret", options, tmp_path, workers=1, on_record=lambda _job, record: seen.append(record.stored)
        )
    assert [path.name for path in written] == ["regret.md", "regret.csv"]
    count = len(records(tmp_path / "runs"))
    assert seen == [False] * count + [True] * count
    page = written[0].read_text()
    for part in ("60% labels", "20/class labels", "links (AUC)", "clusters (NMI)", "| spectral 64 |"):
        assert part in page
    assert "have no record" not in page
    more = Options(datasets=(TINY,), rows=("raw 64", "closed form", "dgi"), quick=True)
    page = reproduce("regret", more, tmp_path, workers=1, stored=True)[0].read_text()
    assert "trainings have no record; they would take about" in page
    narrow = Options(datasets=(TINY,), rows=("raw 64", "spectral 64"), budgets=("60%",), quick=True)
    page = reproduce("regret", narrow, tmp_path, workers=1)[0].read_text()
    assert "60% labels" in page and "20/class labels" not in page
    with pytest.raises(ConfigError, match="unknown budget '61%'; use 60%, 5%, 1%"):
        reproduce("regret", Options(datasets=(TINY,), budgets=("61%",)), tmp_path)


def test_graphs_whose_files_are_missing_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regret, "graphs", lambda: (TINY,))
    monkeypatch.setattr(studies, "available", lambda name: name not in ("cora", "texas"))
    every = Options(rows=("raw 64",))
    sentence = "Left out, since their files are not on this machine: cora, texas."
    assert sentence in reproduce("regret", every, tmp_path, workers=1)[0].read_text()
    one = Options(rows=("raw 64",), datasets=(TINY,))
    assert sentence not in reproduce("regret", one, tmp_path, workers=1)[0].read_text()


def test_the_default_is_compared_with_the_best_of_other_rows_in_each_cell() -> None:
    means = {
        "60%": {"cora": {"dssl 64": 80.0, "raw 64": 78.0, "hops 64": 81.5, "hops 256": 85.0, "dgi": 70.0}},
        "5%": {"cora": {"dssl 64": 70.0, "raw 64": 60.0}, "texas": {"dssl 64": 50.0, "raw 64": 50.5, "dgi": 40.0}},
    }
    widths = {(graph, row): 256 if "256" in row else 64 for found in means.values() for graph in found for row in (
        "dssl 64", "raw 64", "hops 64", "hops 256", "dgi")}  # fmt: skip
    page = regret.markdown(regret.Scores(means, widths), notes=[], remarks=[])
    start = "| the graphs of the design | 60% | dssl 64 |"
    assert f"{start} training-free, 64 columns | 1 | 0 | 0 | -1.5 (cora, 60%) | -1.5 |" in page
    assert f"{start} training-free, any width | 1 | 0 | 0 | -5.0 (cora, 60%) | -5.0 |" in page
    assert f"{start} other trained methods, 64 columns | 1 | 1 | 1 | +10.0 (cora, 60%) | +10.0 |" in page
    few = (
        "| the graphs of the design | 5% | dssl 64 | training-free, 64 columns | 2 | 1 | 2 | -0.5 (texas, 5%) | +4.8 |"
    )
    assert few in page
    assert "dssl 512" not in page


def test_rows_with_few_graphs_are_not_ranked() -> None:
    graphs = ("cora", "texas", "chameleon")
    means = {"60%": {graph: {"full": 70.0, **({"one": 75.0} if graph == "cora" else {})} for graph in graphs}}
    widths = {(graph, row): 64 for graph in graphs for row in ("full", "one")}
    section = regret.markdown(regret.Scores(means, widths), notes=[], remarks=[]).split("## Any width")[0]
    assert section.index("| full |") < section.index("not ranked") < section.index("| one |")
