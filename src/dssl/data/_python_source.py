"""Reading Python source: the definitions, containment, base classes, imports and calls of each file.

Nothing is imported or run.

Names are followed as dotted paths. Each file is read alone: a name becomes a path by the scopes of that file
(``dumps`` → ``json.dumps``). When all files are read, `Reader.follow` leads a path through other files, further names
and base classes to the definition (``json.JSONDecoder`` → ``json.decoder.JSONDecoder``), or to a path outside.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef
LINKS = ("contain", "inherit", "import", "override", "call")  # kinds of links
LONGEST_CHAIN = 50  # attributes and calls in one expression; generated code has longer ones


def words(text: str) -> list[str]:
    """The words of a name or a sentence, in lower case; parts of compound names are words.

    >>> words("parse_HTTPHeader2json to_x")
    ['parse', 'http', 'header', 'json', 'to']
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", text)
    return [word.lower() for word in re.findall(r"[^\W\d_]{2,}", spaced)]


@dataclass(frozen=True, slots=True)
class File:
    """A source file and the dotted name of its module."""

    module: str
    path: Path
    is_package: bool


@dataclass(slots=True)
class Scope:
    """The names of a module, class or function, and their meanings as dotted paths; none if unknown.

    A path that ends in ``()`` is that of an object: ``json.JSONDecoder()``, or ``json.loads()`` for its result.
    """

    kind: str
    id: str
    above: Scope | None
    names: dict[str, str | None] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)

    def module(self) -> Scope:
        """The scope of the file."""
        return self if self.above is None else self.above.module()

    def class_id(self) -> str | None:
        """The innermost class around, if any."""
        if self.kind == "class" or self.above is None:
            return self.id if self.kind == "class" else None
        return self.above.class_id()

    def bind(self, name: str, path: str | None) -> None:
        """Let a name stand for a path, unless it stands for one already: the first branch of an ``if`` counts."""
        if self.names.get(name) is None:
            self.names[name] = path

    def lookup(self, name: str) -> str | None:
        """The path that a name stands for here, by Python's rule: class bodies are not seen from functions inside."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names and (scope is self or scope.kind != "class"):
                return scope.names[name]
            if scope.above is None and scope.stars:
                return f"{scope.id}.{name}"
            scope = scope.above
        return name


Calls = list[tuple[str, Scope, ast.expr]]  # caller, where it calls, and what


class Reader:
    """Collects definitions, and links from definitions to paths, file by file.

    Args:
        modules: names of all modules that will be read.

    Attributes:
        kinds: id of each definition, a dotted name, and its kind; in the order of reading.
        words: the words in its name, parameters and docstring.
    """

    def __init__(self, modules: set[str]) -> None:
        self.modules = modules
        self.kinds: dict[str, str] = {}
        self.words: dict[str, list[str]] = {}
        self._scopes: dict[str, Scope] = {}
        self._bases: dict[str, list[str]] = {}
        self._links: dict[str, list[tuple[str, str]]] = {kind: [] for kind in LINKS}  # from an id to a path
        self._known: dict[str, str] = {}

    def read(self, file: File, tree: ast.Module) -> None:
        """Collect the definitions, imports and calls of one file."""
        scope = self._define("module", file.module, None, [file.module, ast.get_docstring(tree) or ""])
        parent = file.module.rpartition(".")[0]
        if parent in self.modules:
            self._links["contain"].append((parent, file.module))
        package = file.module if file.is_package else parent
        calls: Calls = []
        todo: list[tuple[ast.AST, Scope]] = [(tree, scope)]
        while todo:  # no recursion: generated code nests deeper than Python allows
            node, scope = todo.pop()
            scope = self._enter(node, scope, package, calls)
            todo.extend([(child, scope) for child in ast.iter_child_nodes(node)][::-1])
        for caller, scope, function in calls:  # only now all names of the file are known
            path = self._path(function, scope)
            if path is not None:
                self._links["call"].append((caller, f"{path}.__call__" if path.endswith("()") else path))

    def links(self) -> Iterator[tuple[str, str, str]]:
        """Kind and the two ids of each link, once all files are read, in the order of `LINKS`.

        A container is linked to its content, a class to its bases, a module to those it imports, a caller to the
        callee, and a method to the one that it overrides. Two ids may have links of several kinds.
        """
        methods = (id for id, kind in self.kinds.items() if kind == "method")
        overridden = ((method, self._inherited(*method.rsplit(".", 1))) for method in methods)
        self._links["override"] = [(method, other) for method, other in overridden if other]
        for kind, links in self._links.items():
            for start, path in links:
                end = self.follow(path)
                if start in self.kinds and end in self.kinds and (kind != "call" or self.kinds[end] != "module"):
                    yield kind, start, end

    def _define(self, kind: str, id: str, above: Scope | None, texts: list[str]) -> Scope:
        if kind != "module" and id in self.modules:
            id += "#2"  # a definition named like a submodule
        self.kinds.setdefault(id, kind)
        self.words.setdefault(id, []).extend(word for text in texts for word in words(text))
        scope = self._scopes.setdefault(id, Scope(kind, id, above))
        if above is not None:
            self._links["contain"].append((above.id, id))
        return scope

    def _enter(self, node: ast.AST, scope: Scope, package: str, calls: Calls) -> Scope:
        """Record a node of the syntax tree, and return the scope of its children."""
        match node:
            case ast.ClassDef():
                return self._enter_class(node, scope, calls)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                return self._enter_function(node, scope, calls)
            case ast.Import():
                for alias in node.names:
                    top = alias.name.partition(".")[0]
                    scope.bind(alias.asname or top, alias.name if alias.asname else top)
                    self._links["import"].append((scope.module().id, alias.name))
            case ast.ImportFrom():
                self._enter_import(node, scope, package)
            case ast.Assign(targets=[target]):
                self._assign(target, self._path(node.value, scope), scope)
            case ast.AnnAssign():
                self._assign(node.target, self._annotated(node.annotation, scope), scope)
            case ast.Name(ctx=ast.Store()):
                scope.bind(node.id, None)
            case ast.Call():
                calls.append((scope.id, scope, node.func))
            case ast.Raise(exc=ast.Name() | ast.Attribute() as raised):
                calls.append((scope.id, scope, raised))
        return scope

    def _assign(self, target: ast.expr, path: str | None, scope: Scope) -> None:
        """Remember what ``name = …`` and ``self.name = …`` stand for."""
        match target:
            case ast.Name():
                scope.bind(target.id, path)
            case ast.Attribute(value=ast.Name(id=owner)):
                held = self._scopes.get((scope.lookup(owner) or "").removesuffix("()"))
                if held is not None and held.kind == "class":
                    held.bind(target.attr, path)

    def _annotated(self, annotation: ast.expr | None, scope: Scope) -> str | None:
        path = None if annotation is None else self._path(annotation, scope)
        return path and f"{path}()"

    def _enter_import(self, node: ast.ImportFrom, scope: Scope, package: str) -> None:
        base = node.module or ""
        if node.level:
            parts = package.split(".")
            base = ".".join(filter(None, (*parts[: len(parts) - node.level + 1], base)))
        for alias in node.names:
            if alias.name == "*":
                scope.module().stars.append(base)
                self._links["import"].append((scope.module().id, base))
            else:
                path = f"{base}.{alias.name}"
                scope.bind(alias.asname or alias.name, path)
                self._links["import"].append((scope.module().id, path if path in self.modules else base))

    def _enter_class(self, node: ast.ClassDef, scope: Scope, calls: Calls) -> Scope:
        inner = self._define("class", f"{scope.id}.{node.name}", scope, [node.name, ast.get_docstring(node) or ""])
        bases = [path for base in node.bases if (path := self._path(_without_subscript(base), scope))]
        self._bases.setdefault(inner.id, []).extend(bases)
        self._links["inherit"].extend((inner.id, base) for base in bases)
        scope.names[node.name] = inner.id
        calls.extend((inner.id, scope, d) for d in node.decorator_list if not isinstance(d, ast.Call))
        return inner

    def _enter_function(self, node: Function, scope: Scope, calls: Calls) -> Scope:
        kind = "method" if scope.kind == "class" else "function"
        parameters = [part for part in ast.walk(node.args) if isinstance(part, ast.arg)]
        names = (p.arg for p in parameters if p.arg not in ("self", "cls"))
        texts = [node.name, *names, ast.get_docstring(node) or ""]
        inner = self._define(kind, f"{scope.id}.{node.name}", scope, texts)
        scope.names[node.name] = inner.id
        decorators = {d.id for d in node.decorator_list if isinstance(d, ast.Name)}
        first = [*node.args.posonlyargs, *node.args.args][:1]
        if kind == "method" and first and "staticmethod" not in decorators:
            inner.bind(first[0].arg, scope.id if "classmethod" in decorators else f"{scope.id}()")
        for parameter in parameters:
            inner.bind(parameter.arg, self._annotated(parameter.annotation, scope))
        calls.extend((inner.id, scope, d) for d in node.decorator_list if not isinstance(d, ast.Call))
        return inner

    def _path(self, expression: ast.expr, scope: Scope) -> str | None:
        """The path of a name, of an attribute or of the object that a call gives; none for other expressions."""
        tail = ""
        for _ in range(LONGEST_CHAIN):
            if isinstance(expression, ast.Attribute):
                tail = f".{expression.attr}{tail}"
                expression = expression.value
            elif isinstance(expression, ast.Call):
                tail = f"(){tail}"
                expression = expression.func
        if not isinstance(expression, ast.Name):
            return None
        if expression.id == "super" and tail.startswith("().") and (of := scope.class_id()):
            return f"{of}.super{tail}"
        head = scope.lookup(expression.id)
        return head and head + tail

    def follow(self, path: str) -> str:
        """The id of the node that a path leads to, through imports, other names and base classes, or a path outside."""
        if path in self.kinds:
            return path
        if path not in self._known:
            self._known[path] = path  # stops circles
            self._known[path] = self._step(*path.rpartition("."))
        return self._known[path]

    def _step(self, front: str, dot: str, last: str) -> str:
        if last.endswith("()"):
            made = self.follow(front + dot + last[:-2])
            return made if made in self._bases else f"{made}()"
        if front.endswith(".super()"):
            return self._inherited(front.removesuffix(".super()"), last) or f"{front}.{last}"
        owner = self.follow(front) if front else ""
        scope = self._scopes.get(owner)
        if scope is None:
            return owner + dot + last
        alias = scope.names.get(last)
        if alias is not None and scope.kind != "function":
            return self.follow(alias)
        for star in scope.stars:
            if (found := self.follow(f"{star}.{last}")) in self.kinds:
                return found
        return self._inherited(owner, last) or (last if scope.stars else f"{owner}.{last}")

    def _inherited(self, of: str, name: str) -> str | None:
        for base in self._bases.get(of, ()):
            if (found := self.follow(f"{self.follow(base)}.{name}")) in self.kinds:
                return found
        return None

    def mark_exceptions(self) -> None:
        """Turn the classes that inherit from an exception into exceptions, level by level."""
        paths = {id: {self.follow(base) for base in bases} for id, bases in self._bases.items()}
        found = {id for id, of in paths.items() if any(map(_is_exception_outside, of - self.kinds.keys()))}
        while found:
            self.kinds |= {id: "exception" for id in found if self.kinds[id] == "class"}
            found = {id for id, of in paths.items() if self.kinds[id] == "class" and not found.isdisjoint(of)}


def _is_exception_outside(path: str) -> bool:
    last = path.rpartition(".")[2]
    built_in = getattr(builtins, last, None)
    if isinstance(built_in, type):
        return issubclass(built_in, BaseException)
    return last.endswith(("Error", "Exception", "Warning"))


def _without_subscript(base: ast.expr) -> ast.expr:
    return base.value if isinstance(base, ast.Subscript) else base  # Generic[T] inherits from Generic
