"""``dssl report``: a run, or a comparison of several, as one HTML file that needs nothing else.

The page carries its styles, its data and Plotly's script. A content security policy keeps the browser from loading
anything, and from running any script but the two whose digests it names.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from importlib import resources, util
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from dssl.config.fields import changed, values
from dssl.config.toml import to_toml
from dssl.errors import DsslError, RunError, require
from dssl.evaluation.metrics import across_seeds
from dssl.report import charts, graph_section
from dssl.report import facts as of
from dssl.report.facts import Facts
from dssl.runs.records import Environment, ScoreRecord
from dssl.runs.run_folder import REPORT
from dssl.runtime import files

if TYPE_CHECKING:
    from markupsafe import Markup

COMPARISON = "comparison.html"

LABEL_FREE = {
    "effective_rank": "number of directions in which the vectors differ",
    "alignment": "mean squared distance of linked nodes: small for similar neighbours",
    "uniformity": "about −4 for vectors spread over the sphere, 0 for a single direction",
    "mean_direction": "1 for vectors of a single direction, 0 for all directions",
    "calinski_harabasz": "separation of eight clusters of the vectors",
    "calinski_harabasz_features": "separation, in the vectors, of eight clusters of the features",
    "calinski_harabasz_factors": "separation, in the vectors, of the nodes' main factors",
}
KMEANS = {"nmi": "k-means, NMI", "ari": "k-means, ARI", "accuracy": "k-means, matched accuracy"}


def write(
    folders: Sequence[Path], out: Path | None = None, *, on_stage: Callable[[str], None] = lambda _: None
) -> Path:
    """Write the page of a run, or a comparison of several, and return its path.

    Args:
        folders: run folders.
        out: the file; by default ``report.html`` in the run folder, or ``comparison.html`` next to the first.
        on_stage: called with the name of each part before it starts.
    """
    for module in ("jinja2", "plotly"):
        require(module, extra="report")
    if len({folder.resolve() for folder in folders}) != len(folders):
        raise RunError("a run is named twice; name each run once")
    found = [of.read(folder) for folder in folders]
    if len(found) == 1:
        text = _run_page(found[0], on_stage)
        path = out or folders[0] / REPORT
    else:
        text = _comparison_page(found, on_stage)
        path = out or folders[0].resolve().parent / COMPARISON
    if path.is_dir():
        raise RunError(f"{path} is a folder; name a file with -o, such as {path / REPORT}")
    try:
        files.write_text(path, text)
    except OSError as error:
        raise RunError(f"cannot write {path}: {error.strerror or error}; choose another file with -o") from None
    return path


class Page:
    """The charts of a page by their numbers, and the text around them."""

    def __init__(self) -> None:
        self.charts: list[charts.Chart] = []

    def chart(self, chart: charts.Chart) -> int:
        """Keep a chart, and return its number."""
        self.charts.append(chart)
        return len(self.charts) - 1

    def render(self, template: str, **values: Any) -> str:
        """Fill in a template; all text is escaped."""
        from jinja2 import Environment, PackageLoader, StrictUndefined
        from markupsafe import Markup

        environment = Environment(
            loader=PackageLoader("dssl.report", "templates"),
            autoescape=True,
            undefined=StrictUndefined,
        )
        environment.filters |= {
            "number": of.number,
            "percent": of.percent,
            "duration": of.duration,
            "short": of.short,
        }
        scripts = [_script(_plotly()), _script(_template("report.js"))]
        return environment.get_template(template).render(
            **values,
            scripts=scripts,
            policy=" ".join(f"'sha256-{_digest(script)}'" for script in scripts),
            style=Markup(_template("report.css")),
            charts=_json(self.charts),
        )


def _run_page(facts: Facts, on_stage: Callable[[str], None]) -> str:
    arrays = of.read_arrays(facts, on_stage=on_stage)
    on_stage("page")
    page = Page()
    curves = [curve | {"at": page.chart(curve)} for curve in charts.curves(facts)]
    node_map = charts.node_map(arrays)
    cards: list[dict[str, Any]] = []
    similarity = None
    if arrays.links is not None and arrays.factors is not None:
        cards = charts.factor_cards(arrays.links, arrays.factors, arrays.graph)
        for card in cards:
            card["at"] = page.chart(card["chart"]) if "chart" in card else None
        similarity = charts.similarity(arrays.links, arrays.factors)
        if similarity is not None:
            similarity |= {name: page.chart(similarity[name]) for name in ("true", "learnt")}
    return page.render(
        "run.html",
        facts=facts,
        verdicts=of.verdicts(facts),
        notes=arrays.notes,
        sizes=graph_section.sizes(facts.summary),
        homophily=graph_section.homophily(facts.summary),
        reading=graph_section.reading(facts.summary),
        spectrum=graph_section.spectrum(facts.input.homophily),
        classes=graph_section.class_sizes(
            facts.summary, [] if arrays.graph is None else charts.class_names(arrays.graph)
        ),
        terms=[curve for curve in curves if curve["about"] == "terms"],
        health=[curve for curve in curves if curve["about"] == "health"],
        results=_results(facts, page),
        map={
            "at": page.chart(node_map),
            "words": arrays.places.words,
            "columns": [column["name"] for column in node_map["columns"]],
        },
        cards=cards,
        factors_left_out=max(0, facts.num_factors - len(cards)),
        similarity=similarity,
        changed=_shown(changed(facts.config)),
        settings=_shown(values(facts.config)),
        environment=_environment(facts.environment),
    )


def _comparison_page(found: Sequence[Facts], on_stage: Callable[[str], None]) -> str:
    on_stage("page")
    page = Page()
    named = dict(zip(_names(found), found, strict=True))
    trainings = {name: facts.records for name, facts in named.items()}
    curves = []
    for name, title, words, _ in charts.recorded(record for facts in found for record in facts.records):
        chart = charts.lines(trainings, name)
        if chart is not None and len(chart["lines"]) > 1:
            curves.append({"at": page.chart(chart), "title": title, "words": words})
    looks = {name: at for at, name in enumerate(named)}
    scores = {
        name: _score(facts.evaluation["probe"], _measure(facts))
        for name, facts in named.items()
        if "probe" in facts.evaluation
    }
    measures = {_measure(facts) for facts in found if "probe" in facts.evaluation}
    return page.render(
        "comparison.html",
        runs=[_row(name, facts, scores.get(name)) for name, facts in named.items()],
        scores=page.chart(charts.intervals(_with_baseline(scores, found), looks)) if scores else None,
        measure=(measures.pop() if len(measures) == 1 else "score").replace("_", " "),
        one_graph=len({facts.summary.get("name") for facts in found}) == 1,
        missing=[facts.evaluate for facts in found if not facts.evaluation],
        curves=curves,
        settings=_different(found),
        seeds=_seeds(found),
        same_machine=len({facts.environment.processor for facts in found}) == 1,
    )


def _row(name: str, facts: Facts, score: ScoreRecord | None) -> dict[str, Any]:
    return {
        "name": name,
        "facts": facts,
        "score": score,
        "best": _best_baseline(facts),
        "worst": next((verdict for verdict in of.verdicts(facts) if verdict.state == "look"), None),
        "epochs": int(facts.last.get("epoch") or 0),
    }


def _names(found: Sequence[Facts]) -> list[str]:
    """A name for each run: its folder, with as much of the path as makes the names distinct."""
    parts = [facts.folder.resolve().parts for facts in found]
    depth = next(
        depth for depth in range(1, max(map(len, parts)) + 1) if len({part[-depth:] for part in parts}) == len(parts)
    )
    names = [of.short("/".join(part[-depth:])) for part in parts]
    return names if len(set(names)) == len(names) else [f"{at}: {name}" for at, name in enumerate(names, start=1)]


def _with_baseline(scores: Mapping[str, Any], found: Sequence[Facts]) -> dict[str, Any]:
    """Scores of the runs, and of the best baseline if all were evaluated on the same splits of the same graph."""
    judged = [facts for facts in found if "probe" in facts.evaluation]
    alike = {(facts.summary.get("name"), facts.evaluation.get("splits", {}).get("origin")) for facts in judged}
    best = _best_baseline(judged[0]) if len(alike) == 1 else None
    return dict(scores) if best is None else {**scores, f"best baseline: {best[0]}": best[1]}


def _best_baseline(facts: Facts) -> tuple[str, ScoreRecord] | None:
    sanity = facts.evaluation.get("sanity", {})
    if not sanity:
        return None
    scores = {name: _score(baseline, _measure(facts)) for name, baseline in sanity.items()}
    name = max(scores, key=lambda name: scores[name]["mean"])
    return sanity[name].get("title", name), scores[name]


def _measure(facts: Facts) -> str:
    """The measure of the probe: the one that suits the labels, or the requested one."""
    return facts.evaluation.get("probe", {}).get("measure", "accuracy")


def _score(record: Mapping[str, object], measure: str) -> ScoreRecord:
    return cast("ScoreRecord", record[measure])


def _different(found: Sequence[Facts]) -> list[dict[str, Any]]:
    """The settings in which runs differ, a row for each; settings of one method alone do not count."""
    tables = [values(facts.config) for facts in found]
    rows = []
    for path in dict.fromkeys(path for table in tables for path in table):
        own = [table[path] for table in tables if path in table]
        if any(value != own[0] for value in own):
            rows.append({"path": path, "values": [_value(table[path]) if path in table else "–" for table in tables]})
    return rows


def _seeds(found: Sequence[Facts]) -> list[dict[str, Any]]:
    """For runs that differ in the seed alone, the score with its spread over seeds and over splits."""
    groups: dict[str, list[Facts]] = {}
    for facts in found:
        if "probe" in facts.evaluation:
            alike = facts.config.model_copy(update={"seed": 0})
            groups.setdefault(to_toml(alike), []).append(facts)
    told = []
    for group in groups.values():
        try:
            spread = across_seeds([facts.evaluation for facts in group])[_measure(group[0])] if len(group) > 1 else None
        except DsslError:  # evaluated on different splits
            spread = None
        if spread is not None:
            told.append({"names": ", ".join(str(facts.config.seed) for facts in group), **spread})
    return told


def _results(facts: Facts, page: Page) -> dict[str, Any]:
    """The scores of the embedding and of the baselines, and all other measures."""
    result = facts.evaluation
    probe, sanity = result.get("probe", {}), result.get("sanity", {})
    found: dict[str, Any] = {"at": None, "rows": [], "free": [], "links": [], "origin": "", "evaluated": bool(result)}
    if probe:
        measure = _measure(facts)
        found["measure"] = measure.replace("_", " ")
        found["reason"] = probe.get("reason", "") if measure != "accuracy" else ""
        scores = {name: _score(baseline, measure) for name, baseline in sanity.items()}
        baselines = sorted(scores, key=lambda name: -scores[name]["mean"])
        own = f"this embedding ({facts.config.method.name})"
        rows = {own: _score(probe, measure)} | {sanity[name].get("title", name): scores[name] for name in baselines}
        found["at"] = page.chart(charts.intervals(rows, {own: 0}))
        found["rows"] = [{"name": name, "score": score, "own": name == own} for name, score in rows.items()]
        found["macro_f1"] = probe.get("macro_f1")
        found["origin"] = result.get("splits", {}).get("origin", "")
    free = [
        {"name": name.replace("_", " "), "value": value, "words": LABEL_FREE.get(name, "")}
        for name, value in result.get("label_free", {}).items()
        if value is not None
    ]
    clusters = [
        {"name": words, "value": result.get("kmeans", {}).get(name), "words": ""} for name, words in KMEANS.items()
    ]
    found["free"] = [*(row for row in clusters if row["value"] is not None), *free]
    found["links"], found["links_verdict"] = _link_rows(result.get("links", {})), result.get("links_verdict", "")
    return found


def _link_rows(found: Mapping[str, float]) -> list[dict[str, Any]]:
    """A row for each score of pairs, such as the cosine, with its values by kind of pair and measure.

    >>> _link_rows({"cosine_uniform_auc": 0.7, "cosine_degree_ap": 0.6})
    [{'name': 'cosine', 'values': [0.7, None, None, 0.6]}]
    """
    names = dict.fromkeys(name.rsplit("_", 2)[0] for name in found)
    ends = [f"{pairs}_{measure}" for pairs in ("uniform", "degree") for measure in ("auc", "ap")]
    return [{"name": name.replace("_", " "), "values": [found.get(f"{name}_{end}") for end in ends]} for name in names]


def _environment(record: Environment) -> list[tuple[str, str]]:
    rows = [
        ("command", record.command),
        ("finished", record.finished.replace("T", " ").replace("+00:00", " UTC")),
        ("time", of.duration(record.seconds)),
        ("peak memory", f"{record.peak_memory_mb:,.0f} MB" if record.peak_memory_mb else ""),
        ("machine", f"{record.processor}, {record.cores or '?'} cores, {record.system}"),
        ("python", record.python),
        ("packages", ", ".join(f"{name} {version}" for name, version in record.packages.items())),
    ]
    return [(name, of.short(value, 2000)) for name, value in rows if value]


def _shown(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(path, _value(value)) for path, value in values.items()]


def _value(value: Any) -> str:
    text = (
        "not set" if value is None else json.dumps(value, ensure_ascii=False) if not isinstance(value, str) else value
    )
    return of.short(text, 200) or "–"


def _template(name: str) -> str:
    return resources.files("dssl.report").joinpath("templates", name).read_text(encoding="utf-8")


def _plotly() -> str:
    """Plotly's script, read without importing Plotly, which takes a second."""
    found = util.find_spec("plotly")
    if found is None or found.origin is None:
        raise RunError("a report needs Plotly, which is not installed; use `pip install plotly`")
    return Path(found.origin).with_name("package_data").joinpath("plotly.min.js").read_text(encoding="utf-8")


def _script(text: str) -> Markup:
    """A script for inside its tags, with the line ends that a browser hashes."""
    from markupsafe import Markup

    text = text.replace("\r\n", "\n").replace("\r", "\n")
    assert "</script" not in text.lower()
    return Markup(text)


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")


def _json(value: Any) -> Markup:
    """JSON for inside an HTML element, which no character of it can end."""
    from markupsafe import Markup

    text = json.dumps(value, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e"))
