"""The word list: `python tests/words.py [FILE...]` flags phrases that have a plain technical equivalent.

It reads the prose of Markdown files, docstrings, comments and messages of Python files, and comments and strings of
JavaScript and HTML files. `tests/words_allowed.txt` has the number of findings that a file may still have; a file that
is not listed may have none. ``--update`` lowers the numbers to today's, never raises them. A sentence of the
documentation has at most 25 words.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ALLOWED = ROOT / "tests" / "words_allowed.txt"
LONGEST = 25  # words of a sentence
# Written by a program, or lists of these very phrases.
GENERATED = {"docs/cli.md", "docs/configuration.md"}
FOLDERS = ("docs", "src", "examples", ".github")
FILES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md", "results/README.md")
ENDINGS = {".md", ".py", ".js", ".html", ".toml", ".yml"}

# pattern -> use instead. Patterns ignore case; a space matches any white space.
WORDS = {
    r"foretell|foretells|foretold|foretelling": "predict",
    r"(?:go|goes|went|gone|going) on": "resume, continue",
    r"anew|(?:made|make|makes|making) (?:\w+ ){0,3}again": "again, regenerate, rebuild",
    r"mend|mends|mended|mending": "fix",
    r"(?:needs?|needing|without) (?:no |any )training|what costs nothing": "training-free",
    r"tell|tells|telling|told": "report, distinguish, show, detect",
    r"says|said|saying": "state, print, contain",
    r"sees|knows|wants|asks": "software does not see, know, want or ask: use, contain, require",
    r"nobody|somebody|whoever": "name the part of the program",
    r"judges?|judged|judging": "evaluate",
    r"alike": "similar, in the same way",
    r"beside|besides": "next to, compared with, in addition to",
    r"uses? of chance|by chance|chances|chance of": "random, probability",
    r"(?:a|the|its|whose|mean|expected|what|by) shares?|shares? of": "fraction",
    r"what (?:is|are|was|were|has|have|had|needs?|there|it|they|can|could|does|did|a|an|the|each|we|you|one|makes?)": (
        "name the thing: no noun clause that begins with what"
    ),
    r"that there (?:is|are|was|were)": "name the thing",
    r"(?<!there\s)(?:is|are) no(?! (?:longer|more|less|better|worse|faster|larger))": "is not a",
    r"asked for|asked to": "requested, required",
    r"and the like": "and so on, for example",
    r"hardly|plainly": "leave it out, or give the number",
    r"of (?:its|their) own(?! [a-z])": "own, separate",
    r"comes? from nowhere|in no time": "give the number",
}  # fmt: skip
PATTERN = re.compile(
    "|".join(rf"(?P<w{i}>\b(?:{words})\b)" for i, words in enumerate(WORDS)).replace(" ", r"\s+"), re.IGNORECASE
)
INSTEAD = list(WORDS.values())


def files() -> list[Path]:
    """All files that are checked."""
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.suffix in ENDINGS]
    found += [ROOT / name for name in FILES]
    return sorted(path for path in found if path.is_file() and name_of(path) not in GENERATED)


def name_of(path: Path) -> str:
    return path.resolve().relative_to(ROOT).as_posix()


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The pieces of text of a file with the lines they begin at; code is blanked out."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield 1, without_code(text)
    elif path.suffix == ".py":
        yield from _python(text)
    elif path.suffix == ".js":
        yield from _matches(r"//[^\n]*|/\*.*?\*/|\"(?:[^\"\\\n]|\\.)*\"|`(?:[^`\\]|\\.)*`", text)
    elif path.suffix in {".toml", ".yml"}:
        yield from _matches(r"#[^\n]*|\"(?:[^\"\\\n]|\\.)* (?:[^\"\\\n]|\\.)*\"", text)
    else:
        yield 1, re.sub(r"\{[{%].*?[%}]\}|<[^>]*>", _blank, text, flags=re.DOTALL)


def without_code(text: str) -> str:
    """Markdown without code blocks, code spans, addresses and quotations; lines stay where they are."""
    text = re.sub(r"^(```|~~~).*?^\1", _blank, text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^(?: {4}|\t)\S.*$", _blank_code, text, flags=re.MULTILINE)
    return re.sub(r"`[^`\n]+(?:\n[^`\n]+)?`|\]\([^)]*\)|<!--|-->", _blank, text)


def _blank(found: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", found[0])


def _blank_code(found: re.Match[str]) -> str:
    """An indented line is code if it begins like a command."""
    return _blank(found) if re.match(r"\s+(dssl|torchrun|from|import|pip|synthetic)\b", found[0]) else found[0]


def _matches(pattern: str, text: str) -> Iterator[tuple[int, str]]:
    for found in re.finditer(pattern, text, re.DOTALL):
        yield text.count("\n", 0, found.start()) + 1, found[0]


def _python(text: str) -> Iterator[tuple[int, str]]:
    """Docstrings and other strings with a space in them, and comments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, re.sub(r"``.*?``|`[^`\n]*`|>>>[^\n]*", _blank, node.value, flags=re.DOTALL)
    comments: dict[int, str] = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments[token.start[0]] = token.string.lstrip("#! ")
    start, block = 0, ""
    for line in [*sorted(comments), 0]:  # comments on lines that follow each other are one text
        if line == start + block.count("\n") + 1 and block:
            block += "\n" + comments[line]
            continue
        if block:
            yield start, re.sub(r"`[^`\n]*`", _blank, block)
        start, block = line, comments.get(line, "")


def findings(path: Path) -> list[str]:
    """A line for each phrase of the word list in a file."""
    found = []
    for line, text in prose(path):
        for match in PATTERN.finditer(text):
            at = line + text.count("\n", 0, match.start())
            instead = INSTEAD[int((match.lastgroup or "w0")[1:])]
            found.append(f"{name_of(path)}:{at}: {' '.join(match[0].split())!r}; instead: {instead}")
    return found


def long_sentences(path: Path) -> list[str]:
    """The sentences of a Markdown file with more than LONGEST words; tables and headings are not sentences."""
    lines = without_code(path.read_text(encoding="utf-8")).splitlines()
    text = "\n".join("" if re.match(r"\s*([|#]|\[\S+\]:)", line) else line for line in lines)
    found = []
    for paragraph in re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.|:)\s)", text):
        for sentence in re.split(r"(?<=[.!?])\s+|\s·\s", " ".join(paragraph.split())):
            words = re.findall(r"[^\W\d_][\w'’-]*", sentence)
            if len(words) > LONGEST:
                found.append(f"{name_of(path)}: {len(words)} words: {sentence[:100]} …")
    return found


def allowed() -> dict[str, int]:
    """The number of findings that each file may still have."""
    lines = ALLOWED.read_text(encoding="utf-8").splitlines() if ALLOWED.exists() else []
    pairs = [line.rsplit(" ", 1) for line in lines if line and not line.startswith("#")]
    return {name: int(count) for name, count in pairs}


def main() -> int:
    """Print the findings of files that have more than they may; return 1 if there are any."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", type=Path, help="files to show in full; by default all are counted")
    parser.add_argument("--update", action="store_true", help="lower the allowed numbers to today's")
    parser.add_argument("--sentences", action="store_true", help="show the long sentences of these files too")
    options = parser.parse_args()
    if options.files:
        shown = [line for path in options.files for line in findings(path)]
        if options.sentences:
            shown += [line for path in options.files if path.suffix == ".md" for line in long_sentences(path)]
        sys.stdout.write("".join(f"{line}\n" for line in shown))
        return bool(shown)
    found = {name_of(path): findings(path) for path in files()}
    limits = allowed()
    if options.update:
        lower = {name: min(len(lines), limits.get(name, 0)) for name, lines in found.items()}
        text = "".join(f"{name} {count}\n" for name, count in sorted(lower.items()) if count)
        ALLOWED.write_text(
            f"# Findings of tests/words.py that are left in each file. Only ever lower.\n{text}", "utf-8"
        )
        limits = lower
    worse = {name: lines for name, lines in found.items() if len(lines) > limits.get(name, 0)}
    for lines in worse.values():
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    total = sum(map(len, found.values()))
    long = [line for path in files() if path.suffix == ".md" for line in long_sentences(path)]
    sys.stdout.write("".join(f"{line}\n" for line in long))
    sys.stdout.write(f"words: {total} findings in {sum(map(bool, found.values()))} files, ")
    sys.stdout.write(f"{len(worse)} above the allowed number; {len(long)} sentences above {LONGEST} words\n")
    return bool(worse or long)


if __name__ == "__main__":
    sys.exit(main())
