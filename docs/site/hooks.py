"""Hooks of MkDocs: pages from outside of docs/, and a check that no page loads from another host.

Links in the repository's Markdown files are relative to the repository, so that they work in any viewer of the source.
The hooks translate those that leave docs/ into links of the site.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
PROJECT = ("CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "LICENSE", "SECURITY.md")
RESULTS = (
    "*.md",
    "*.svg",
    "*.csv",
    "figures/*.svg",
    "figures/*.csv",
    "compare-texas/*.md",
    "compare-texas/*.svg",
    "compare-texas/*.csv",
)
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*?\bsrc=[\"']?(?:https?:)?//[^\"'\s>]+"
    r"|<link\b(?=[^>]*\brel=[\"']?(?:stylesheet|preconnect|preload|icon))[^>]*?\bhref=[\"']?(?:https?:)?//[^\"'\s>]+"
)


def on_config(config: Any) -> Any:
    """Replace the index page of a folder in the navigation by all pages of the folder."""
    config["nav"] = [_expanded(entry) for entry in config["nav"]]
    return config


def _expanded(entry: Any) -> Any:
    if isinstance(entry, dict):
        ((title, value),) = entry.items()
        if isinstance(value, list):
            return {title: [_expanded(each) for each in value]}
        if value in ("methods/README.md", "decisions/README.md"):
            folder = ROOT / "docs" / Path(value).parent
            pages = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
            pages.sort(key=lambda path: path.name != "dssl.md")
            return {title: [value, *({_title(path): path.relative_to(ROOT / "docs").as_posix()} for path in pages)]}
    return entry


def _title(path: Path) -> str:
    """The heading of a page up to a colon."""
    return path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ").partition(":")[0]


def on_files(files: Files, *, config: Any) -> Files:
    """Add the project's own pages and the stored results."""
    paths = [ROOT / name for name in PROJECT]
    paths += [path for pattern in RESULTS for path in sorted((ROOT / "results").glob(pattern))]
    for path in paths:
        name = path.relative_to(ROOT).as_posix()
        files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:  # noqa: ARG001
    """Translate links between files of the repository into links of the site."""
    own = Path(page.file.abs_src_path).relative_to(ROOT)
    home = posixpath.dirname(page.file.src_uri)

    def translated(found: re.Match[str]) -> str:
        before, target, anchor, after = found.groups()
        if re.match(r"[a-z]+:", target):
            return found[0]
        path = posixpath.normpath(posixpath.join(own.parent.as_posix(), target))
        name = "index.md" if path == "README.md" else path.removeprefix("docs/")
        if target.endswith("/"):
            name = f"{name}/README.md"
        if files.get_file_from_path(name) is None:
            return found[0]  # MkDocs reports it
        return f"{before}{posixpath.relpath(name, home or '.')}{anchor or ''}{after}"

    return LINK.sub(translated, markdown)


def on_post_build(*, config: Any) -> None:
    """Refuse a site that loads scripts, styles or pictures from another host."""
    for path in sorted(Path(config["site_dir"]).rglob("*.html")):
        if found := LOADED.search(path.read_text(encoding="utf-8")):
            raise PluginError(f"{path.name} loads from another host: {found[0]}")
