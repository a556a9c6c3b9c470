"""The files around the package: the workflow calls targets that exist, and pages name files that exist."""

from __future__ import annotations

import re
import subprocess
import tomllib
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z]+):", MAKEFILE, re.MULTILINE))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
YAML = [*WORKFLOWS, *sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ROOT / ".pre-commit-config.yaml"]
PAGES = [*sorted((ROOT / "docs").rglob("*.md")), *(ROOT / name for name in ("README.md", "CONTRIBUTING.md"))]
NAMED = re.compile(r"\b(?:src|tests|benchmarks|examples)/[\w/.-]+\.(?:py|toml|js|html)\b")


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_yaml_files_have_the_keys_that_github_and_pre_commit_require(path: Path) -> None:
    # YAML 1.1 reads the key "on" as true.
    required = {"workflows": {"name", True, "jobs"}, "ISSUE_TEMPLATE": {"name", "description", "body"}}
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    if path.name == "config.yml":
        assert set(found) <= {"blank_issues_enabled", "contact_links"}
    else:
        assert required.get(path.parent.name, {"repos"}) <= set(found)


def test_every_step_of_the_workflow_uses_an_action_or_a_target_of_the_makefile() -> None:
    called = set()
    for path in WORKFLOWS:
        for name, job in yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"].items():
            assert job["runs-on"], name
            for step in job["steps"]:
                assert ("uses" in step) != ("run" in step), step
                if "uses" in step:
                    assert re.fullmatch(r"[\w-]+/[\w-]+@v\d+", step["uses"]), step
                else:
                    words = step["run"].split()
                    assert words[0] == "make", step
                    called |= {word for word in words[1:] if "=" not in word}
    assert called == {"test", "docs", "dist"} <= TARGETS


def test_targets_are_phony_and_those_of_contributing_exist() -> None:
    phony = re.search(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == TARGETS
    assert set(re.findall(r"`make ([a-z]+)", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))) <= TARGETS
    dry = subprocess.run(["make", "-n", "test", "dist"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert dry.returncode == 0, dry.stderr


def test_the_tested_python_versions_are_those_of_the_classifiers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = [match[1] for text in project["classifiers"] if (match := re.fullmatch(r".* :: (3\.\d+)", text))]
    matrix = yaml.safe_load(WORKFLOWS[0].read_text(encoding="utf-8"))["jobs"]["test"]["strategy"]["matrix"]
    assert matrix["python"] == named
    lowest, above = re.fullmatch(r">=(3\.\d+),<3\.(\d+)", project["requires-python"]).groups()  # type: ignore[union-attr]
    assert [lowest, f"3.{int(above) - 1}"] == [named[0], named[-1]]


def test_the_readme_names_every_extra_of_a_user() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = re.search(r"extras: ([\w, ]+)", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert named is not None
    assert set(named[1].split(", ")) == set(project["optional-dependencies"]) - {"all", "dev", "docs", "others"}


def test_every_stored_result_is_in_the_list_of_results() -> None:
    listed = re.findall(r"`([\w.*/-]+)`", (ROOT / "results" / "README.md").read_text(encoding="utf-8"))
    stored = subprocess.run(["git", "ls-files", "results"], cwd=ROOT, capture_output=True, text=True, check=False)
    names = {line.split("/")[1] for line in stored.stdout.splitlines()} - {"README.md"}
    assert [name for name in names if not any(fnmatch(name, pattern.rstrip("/")) for pattern in listed)] == []


def test_contributing_names_the_figure_of_the_mutants() -> None:
    figure = re.search(r"\d+ of \d+ mistakes are caught", (ROOT / "results" / "mutants.md").read_text(encoding="utf-8"))
    assert figure is not None
    assert figure[0] in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_every_deliberate_mistake_has_its_text_in_the_source() -> None:
    groups = tomllib.loads((ROOT / "tests" / "mutants.toml").read_text(encoding="utf-8"))["group"]
    mistakes = [mistake for group in groups for mistake in group["mistake"]]
    sources = {each["file"]: (ROOT / "src" / "dssl" / each["file"]).read_text(encoding="utf-8") for each in mistakes}
    assert [each["what"] for each in mistakes if each["right"] not in sources[each["file"]]] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_files_that_a_page_names_exist(page: Path) -> None:
    named = set(NAMED.findall(page.read_text(encoding="utf-8")))
    assert {name for name in named if not (ROOT / name).exists()} == set()
