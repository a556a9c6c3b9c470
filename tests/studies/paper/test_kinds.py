"""The study of factors and kinds: its jobs, its stored records, and its page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dssl.errors import DsslError
from dssl.studies.experiments import Job
from dssl.studies.paper import kinds, taught
from dssl.studies.paper.plans import Options


def content(ami: float) -> dict[str, object]:
    rows = {name: {"ami": ami, "purity": 0.5} for name in (*kinds.COLUMNS, "chance")}
    return {"links": 3, "rows": rows, "table": [[1, 2]], "names": ["call", "import"], "factors": ["0 · call"]}


def learned(job: Job) -> dict[str, object]:
    rows = {name: dict.fromkeys(taught.MEASURES, 0.5) for name in taught.ROWS}
    return {"links": 2, "known": 1, "kinds": 2, "rows": rows, "number": 7 + job.seed}


def test_a_stored_record_is_used_again_and_the_page_has_mean_and_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured = []

    def measure(job: Job) -> dict[str, object]:
        measured.append(job.seed)
        if job.graph == "bad":
            raise DsslError("no kinds")
        return content(0.2 + 0.2 * job.seed)

    monkeypatch.setattr(kinds, "measure", measure)
    monkeypatch.setattr(taught, "measure", learned)
    options = Options(datasets=("python:one", "bad"), seeds=2)
    for _ in range(2):
        written = kinds.write(options, tmp_path, lambda _job, _record: None)
    assert measured == [0, 1, 0, 1, 0, 1]  # a failure is not stored
    page = written[0].read_text()
    assert "| python:one | 3 | 2 | 0.30 (0.20 to 0.40) |" in page
    assert "| 0 · call | 1 | 2 |" in page and (tmp_path / "kinds.svg").exists() and "bad, seed 0: no kinds" in page
    assert "| python:one | 2 | 2 | logistic regression | 0.50 | 0.50 | 0.50 |" in page
    assert "| python:one | 2 | 7, 8 |" in page
    more = Options(datasets=("python:one", "python:two"), seeds=3)
    again = kinds.write(more, tmp_path, lambda _job, _record: None, stored=True)
    assert len(measured) == 6 and "| python:one | 3 | 2 | 0.30" in again[0].read_text()
    assert json.loads((tmp_path / "kinds" / "python-one-1.json").read_text())["seed"] == 1


def test_all_rows_are_measured_on_a_small_package(monkeypatch: pytest.MonkeyPatch) -> None:
    found = kinds.measure(Job("python:json", "kinds", {"num_factors": 3, "epochs": 2, "dim": 8}, splits=0))
    assert set(found["rows"]) == {*kinds.COLUMNS, "chance"}
    assert all(-0.2 < row["ami"] <= 1 and 0 < row["purity"] <= 1 for row in found["rows"].values())
    assert sum(map(sum, found["table"])) == found["links"]


def test_predicted_kinds_are_measured_on_links_that_were_not_taught() -> None:
    found = taught.measure(Job("python:logging", "taught", {"epochs": 2, "dim": 8}, splits=0))
    assert 0.02 < found["known"] / (found["known"] + found["links"]) < 0.25
    assert set(found["rows"]) == set(taught.ROWS)
    assert found["rows"]["chance"]["accuracy"] < found["rows"]["logistic regression"]["accuracy"]
    assert found["kinds"] == 5 and 1 <= found["number"] <= 16
