"""What identifies the code behind a result: the content of what it computes.

A fingerprint covers every function, class and constant that can be reached by name from where a
run begins, across the modules that are given. Each is taken as its syntax tree, without comments,
docstrings, annotations, messages of errors and what follows Ctrl-C, after which there is no row.
What a definition is called at the top of its module, and which module that is, does not count: a
reference counts as what it refers to.
A method counts where its class is reached and its name is used in anything that is: how a model is
saved is no part of a table that saves none.
"""

from __future__ import annotations

import ast
import copy
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# Bases from outside that call no method of their heirs but those named somewhere; heirs of others
# (torch's modules, SymPy's printers) count whole.
SILENT = re.compile(r"ABC|BaseEstimator|NamedTuple|Protocol|RegressorMixin|.*(Error|Warning)")
ROUNDS = 4  # how far a definition is told from another by what it refers to
DATA = re.compile(r"(?:[\w-]+/)*[\w-]+\.(?:csv|json|npz|parquet|txt)")
# A module and a name at its top, or a class and its method there ("Class.method"); the name "" is
# the module itself.
Key = tuple[str, str]
Normal = tuple[str, list[Key], set[str]]  # a definition's text, what it refers to, names it uses


@dataclass
class Module:
    """The top of a module: what it defines, what it imports, and what it merely does."""

    name: str
    is_package: bool = False
    definitions: dict[str, list[ast.stmt]] = field(default_factory=dict)
    methods: dict[str, list[str]] = field(default_factory=dict)  # of each class, "Class.method"
    imports: dict[str, Key] = field(default_factory=dict)
    loose: list[ast.stmt] = field(default_factory=list)

    def add(self, statements: Iterable[ast.stmt]) -> None:
        """Sort statements into definitions, imports and others."""
        for node in statements:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self.imports.update(self.bound(node))
            elif isinstance(node, ast.ClassDef):
                self.add_class(node)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self.definitions.setdefault(node.name, []).append(node)
            elif targets := _targets(node):
                for target in targets:
                    self.definitions.setdefault(target.id, []).append(node)
            elif isinstance(node, ast.If | ast.Try):  # TYPE_CHECKING, an optional import
                handlers = [h.body for h in getattr(node, "handlers", [])]
                for body in (node.body, *handlers, node.orelse):
                    self.add(body)
            elif not _is_text(node):
                self.loose.append(node)

    def add_class(self, node: ast.ClassDef) -> None:
        """A class, and each of its methods by itself; those that Python calls stay in it."""
        apart = [
            part
            for part in node.body
            if isinstance(part, ast.FunctionDef) and not part.name.startswith("__")
        ]
        for part in apart:
            self.definitions.setdefault(f"{node.name}.{part.name}", []).append(part)
        self.methods[node.name] = [f"{node.name}.{part.name}" for part in apart]
        rest = copy.copy(node)
        rest.body = [part for part in node.body if part not in apart] or [ast.Pass()]
        self.definitions.setdefault(node.name, []).append(rest)

    def bound(self, node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Key]]:
        """The names that an import statement binds, each with what it stands for."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.split(".")[0]
                yield alias.asname or whole, (whole, "")
            return
        parts = self.name.split(".") if node.level else []
        parts = parts[: len(parts) - node.level + self.is_package] if node.level else []
        source = ".".join([*parts, *filter(None, [node.module])])
        for alias in node.names:
            yield alias.asname or alias.name, (source, alias.name)


def read_modules(folders: Mapping[str, Path]) -> dict[str, Module]:
    """The modules of packages, each given by its name and folder."""
    modules = {}
    for package, folder in folders.items():
        for path in sorted(folder.rglob("*.py")):
            parts = [package, *path.relative_to(folder).with_suffix("").parts]
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            modules[name] = Module(name, is_package)
            modules[name].add(ast.parse(path.read_text(encoding="utf-8")).body)
    return modules


def fingerprint(
    modules: Mapping[str, Module],
    starts: Iterable[Key],
    data: Iterable[Path] = (),
    known: dict[Key, Normal] | None = None,
    never: Iterable[Key] = (),
) -> str:
    """Twelve digits for all that is reached from ``starts``, pairs of a module and a name.

    ``data`` are files whose content counts if their name is a text in what is reached; ``known``
    keeps definitions that were brought to their normal form, for the next call; ``never`` are
    definitions that no run enters, whatever refers to them.

    >>> def of(**sources):
    ...     modules = {name: Module(name) for name in sources}
    ...     for name, source in sources.items():
    ...         modules[name].add(ast.parse(source).body)
    ...     return fingerprint(modules, [("a", "run")])
    >>> here = of(a="def run(): return half(8)\\ndef half(x): return x / 2")
    >>> moved = "from b import half\\ndef run(): return half(8)"
    >>> here == of(a=moved, b="def half(x): return x / 2")
    True
    >>> here == of(a="def run(): return half(8)\\ndef half(x): return x / 3")
    False
    """
    texts: dict[Key, str] = {}
    known, never = {} if known is None else known, set(never)
    unused: dict[str, list[Key]] = {}  # methods of what is reached, by their name
    used: set[str] = set()
    waiting = [key for start in starts for key in _units(modules, *start)]
    while waiting:
        key = waiting.pop()
        if key in texts or key in never:
            continue
        if key not in known:
            known[key] = _normal(modules, *key)
        texts[key], reached, names = known[key]
        waiting += reached
        waiting += [(key[0], f"<{i}>") for i in range(len(modules[key[0]].loose))]
        used |= names
        methods = [(key[0], method) for method in modules[key[0]].methods.get(key[1], ())]
        if methods and not _is_silent(modules, *key):
            waiting += methods
        else:
            for method in methods:
                unused.setdefault(method[1].split(".")[1], []).append(method)
        for name in [name for name in unused if name in used]:
            waiting += unused.pop(name)
    labels = dict.fromkeys(texts, "")
    for _ in range(ROUNDS):
        labels = {key: _digest(_labelled(text, labels)) for key, text in texts.items()}
    return _digest("".join(sorted([*labels.values(), *_files(texts.values(), data)])))


def _labelled(text: str, labels: Mapping[Any, str]) -> str:
    """A normal text with the present label of each definition that it refers to."""
    return _MARK.sub(lambda mark: f"<{labels.get(mark.groups(), '')}>", text)


_MARK = re.compile(r"⟦([^:⟧]*):([^⟧]*)⟧")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _files(texts: Iterable[str], data: Iterable[Path]) -> Iterator[str]:
    named = {Path(found).name for text in texts for found in DATA.findall(text)}
    for path in sorted(data):
        if path.name in named:
            yield hashlib.sha256(path.read_bytes()).hexdigest()


# --- names -----------------------------------------------------------------------------------


def _resolve(modules: Mapping[str, Module], module: str, name: str) -> Key | None:
    """What a name at the top of a module stands for, if that is in ``modules``."""
    for _ in range(20):  # through modules that only pass a name on
        if not name:
            return (module, "") if module in modules else None
        known = modules.get(module)
        if known is None:
            return None
        if name in known.definitions:
            return module, name
        if name not in known.imports:
            inner = f"{module}.{name}"
            return (inner, "") if inner in modules else None
        before = module, name
        module, name = known.imports[name]
        if (module, name) == before:  # "from . import x" in the package itself
            module, name = f"{module}.{name}", ""
    raise ValueError(f"{module}.{name} is imported in a circle")


def _units(modules: Mapping[str, Module], module: str, name: str) -> list[Key]:
    """The definitions that a reference may reach: one, or all of a module that is passed on."""
    found = _resolve(modules, module, name)
    if found is None:
        return []
    if found[1]:
        return [found]
    top = modules[found[0]]
    keys: set[Key] = {(found[0], own) for own in top.definitions if "." not in own}
    for alias in top.imports:
        target = _resolve(modules, found[0], alias)
        if target and target[1]:
            keys.add(target)
    return sorted(keys)


def _is_silent(modules: Mapping[str, Module], module: str, name: str) -> bool:
    """Whether no base from outside may call a method of this class unseen."""
    for node in modules[module].definitions[name]:
        for base in getattr(node, "bases", ()):
            base = base.value if isinstance(base, ast.Subscript) else base
            found = _Normaliser(modules, module).target(base)
            if found and found[1]:
                if not _is_silent(modules, *found):
                    return False
            elif not SILENT.fullmatch(ast.unparse(base).split(".")[-1]):
                return False
    return True


class _Normaliser(ast.NodeTransformer):
    """Removes what computes nothing and marks what refers to other definitions."""

    def __init__(self, modules: Mapping[str, Module], module: str):
        self.modules, self.module = modules, module
        self.scopes: list[dict[str, Key | None]] = []
        self.reached: list[Key] = []

    def find(self, name: str) -> Key | None:
        for scope in reversed(self.scopes):
            if name in scope:
                bound = scope[name]
                return _resolve(self.modules, *bound) if bound else None
        return _resolve(self.modules, self.module, name)

    def target(self, node: ast.expr) -> Key | None:
        """What an expression stands for, if it is a name or a chain of attributes of modules."""
        if isinstance(node, ast.Name):
            return self.find(node.id)
        if isinstance(node, ast.Attribute):
            base = self.target(node.value)
            if base and not base[1]:
                return _resolve(self.modules, base[0], node.attr)
        return None

    def mark(self, node: ast.Name | ast.Attribute) -> ast.expr | None:
        found = self.target(node) if isinstance(node.ctx, ast.Load) else None
        if not found:
            return None
        self.reached += _units(self.modules, *found)
        return ast.Name(f"⟦{found[0]}:{found[1]}⟧", ast.Load())

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.mark(node) or node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        return self.mark(node) or self.generic_visit(node)  # type: ignore[return-value]

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        node.decorator_list = [self.visit(part) for part in node.decorator_list]
        scope = self._parameters(node.args)
        node.body = [part for part in node.body if not _is_text(part)]
        scope |= {name: None for name in _stored(node.body)}
        for part in ast.walk(node):
            if isinstance(part, ast.Import | ast.ImportFrom):
                scope |= dict(self.modules[self.module].bound(part))
        self.scopes.append(scope)
        node.body = list(self._visited(node.body))
        self.scopes.pop()
        return node

    visit_AsyncFunctionDef = visit_FunctionDef  # type: ignore[assignment]

    def visit_Lambda(self, node: ast.Lambda) -> ast.AST:
        self.scopes.append(self._parameters(node.args))
        node.body = self.visit(node.body)
        self.scopes.pop()
        return node

    def _parameters(self, every: ast.arguments) -> dict[str, Key | None]:
        """The names that parameters bind; their defaults are of the scope outside."""
        every.defaults = [self.visit(part) for part in every.defaults]
        every.kw_defaults = [part and self.visit(part) for part in every.kw_defaults]
        own = [part for part in ast.walk(every) if isinstance(part, ast.arg)]
        for part in own:
            part.annotation = None
        return {part.arg: None for part in own}

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [part for part in node.body if not _is_text(part)]
        return self.generic_visit(node)

    def _visited(self, body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
        for part in body:
            new = self.visit(part)
            yield from new if isinstance(new, list) else [new] if new is not None else []

    def _comprehension(self, node: ast.AST) -> ast.AST:
        targets = [part.target for part in node.generators]  # type: ignore[attr-defined]
        self.scopes.append(
            {n.id: None for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)}
        )
        self.generic_visit(node)
        self.scopes.pop()
        return node

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension

    def visit_Import(self, node: ast.Import) -> None:
        return None  # what it binds is in the scope

    visit_ImportFrom = visit_Import  # type: ignore[assignment]

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = ast.Constant(None)
        return self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> ast.AST | list[ast.stmt]:
        node.handlers = [h for h in node.handlers if not _is_interrupt(h)]
        if node.handlers or node.finalbody:
            return self.generic_visit(node)
        return list(self._visited([*node.body, *node.orelse]))

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):  # its message computes nothing
            node.exc = ast.Call(node.exc.func, [], [])
        return self.generic_visit(node)


def _normal(modules: Mapping[str, Module], module: str, name: str) -> Normal:
    """A definition as normal text, and what it refers to."""
    top = modules[module]
    nodes = [top.loose[int(name[1:-1])]] if name.startswith("<") else top.definitions[name]
    written, visitor = [], _Normaliser(modules, module)
    parts = [part for node in nodes for part in ast.walk(node)]
    names = {part.attr for part in parts if isinstance(part, ast.Attribute)}
    texts = (part.value for part in parts if isinstance(part, ast.Constant))
    names |= {text for text in texts if isinstance(text, str)}  # getattr(model, "score")
    if "." in name:
        written.append(f"⟦{module}:{name.split('.')[0]}⟧")
    for node in copy.deepcopy(nodes):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            node.name = name.split(".")[1] if "." in name else "_"
        else:
            for part in _targets(node):
                part.id = "_own" if part.id == name else "_"
        written.append(ast.unparse(ast.fix_missing_locations(visitor.visit(node))))
    return "\n".join(written), visitor.reached, names


def _targets(node: ast.stmt) -> list[ast.Name]:
    """The names that an assignment defines; none if it changes something that is there."""
    targets = getattr(node, "targets", []) if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    parts = [p for t in targets for p in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return [part for part in parts if isinstance(part, ast.Name)]


def _stored(body: Iterable[ast.AST]) -> Iterator[str]:
    """The names that statements bind in their own scope."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif not isinstance(
            node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
        ):
            if isinstance(node, ast.ExceptHandler) and node.name:
                yield node.name
            yield from _stored(ast.iter_child_nodes(node))


def _is_interrupt(handler: ast.ExceptHandler) -> bool:
    return isinstance(handler.type, ast.Name) and handler.type.id == "KeyboardInterrupt"


def _is_text(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
