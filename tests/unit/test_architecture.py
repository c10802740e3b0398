"""The rules of the house, read from the source: who may import whom, and what a module owes its reader."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = REPOSITORY / "pgvector"

# Each may import what stands before it, and itself.
LAYERS = (
    {"domain"},
    {"config"},
    {"store", "embed", "server"},
    {"capture", "recall"},
    {"runtime"},
    {"host"},
    {"mcp"},
    {"admin"},
    {"dashboard"},
    {"cli"},
)
# The only modules of the agent's wing that may reach into the operator's tool, when an operator asks the host for it.
DOORS_TO_ADMIN = {"host/setup.py", "host/backup.py"}
# A driver or a client library, and the only places that may import it.
CONFINED = {
    "psycopg": {"store", "server", "admin"},
    "psycopg_pool": {"store", "server"},
    "pgvector": {"store", "server", "admin"},
    "httpx": {"embed"},
    "requests": {"embed"},
    "urllib.request": {"embed"},
    "http.client": {"embed"},
    "mcp": {"mcp"},
    "starlette": {"mcp", "dashboard"},
    "uvicorn": {"mcp", "dashboard"},
    "fastapi": {"dashboard"},
}
WITHOUT_AGENT = {"mcp", "admin", "dashboard"}  # no agent loads them
CATCH_ALL_ALLOWED = {"host", "mcp", "dashboard", "cli"}
SHIM = "admin/setup/shim/"  # what hermes loads in place of the package: it is copied into its plugin directory
# Roles that every feature may have; and names that stand twice today, of which no more may come.
NAMED_TWICE = {"__init__", "command"}
MAX_MODULE_LINES = 400
MAX_ROOT_LINES = 39
# Loaded by the host's dashboard by its path, without a package.
DASHBOARD_DOOR = "dashboard/plugin_api.py"


@dataclass(frozen=True)
class Module:
    """One source file of the package; `path` is relative to the package, with forward slashes."""

    path: str
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source, self.path)

    @property
    def layer(self) -> str:
        """The sub-package, or the name of a top-level module; `__init__` for the package root."""
        return self.path.split("/")[0].removesuffix(".py")

    @property
    def is_top_level(self) -> bool:
        return "/" not in self.path

    @property
    def in_shim(self) -> bool:
        return self.path.startswith(SHIM)


class House:
    """All modules of a package."""

    def __init__(self, root: Path) -> None:
        self.modules = [
            Module(path.relative_to(root).as_posix(), path.read_text(encoding="utf-8"))
            for path in sorted(root.rglob("*.py"))
        ]
        self.names = {module.layer for module in self.modules}

    def own_imports(self, module: Module) -> Iterator[tuple[int, str]]:
        """Line and target (`""` for the root, else a sub-package or top-level module) of each relative import."""
        depth = module.path.count("/")
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ImportFrom) or node.level == 0:
                continue
            if node.level <= depth:
                yield node.lineno, module.layer
            elif node.module:
                yield node.lineno, node.module.split(".")[0]
            else:
                for alias in node.names:
                    yield node.lineno, alias.name if alias.name in self.names else ""


Rule = Callable[[House], Iterator[str]]


def follows_the_layers(house: House) -> Iterator[str]:
    """Imports go from later layers to earlier ones, inside functions as well."""
    rank = {name: number for number, names in enumerate(LAYERS) for name in names}
    for module in house.modules:
        if module.layer in {"__init__", "config_schema"} or module.in_shim:
            continue
        if module.layer not in rank:
            yield f"{module.path}: {module.layer} has no layer"
            continue
        for line, target in house.own_imports(module):
            if target == "admin" and module.path in DOORS_TO_ADMIN:
                continue
            if target and target != module.layer and rank.get(target, len(LAYERS)) >= rank[module.layer]:
                yield f"{module.path}:{line}: {module.layer} imports {target}"


def leaves_the_root_alone(house: House) -> Iterator[str]:
    """Nothing imports the package root, whose only task is to be loaded by the host."""
    for module in house.modules:
        for line, target in house.own_imports(module):
            if target in {"", "__init__"}:
                yield f"{module.path}:{line}: imports the package root"


def imports_itself_relatively(house: House) -> Iterator[str]:
    """The host loads the package under another name, so its own name is never written."""
    for module in house.modules:
        if module.in_shim or module.path == DASHBOARD_DOOR:
            continue
        for line, name in sorted(set(absolute_imports(module.tree))):
            if name == "hermes_memory_pgvector" or name.startswith("hermes_memory_pgvector."):
                yield f"{module.path}:{line}: imports {name}"


def keeps_clients_confined(house: House) -> Iterator[str]:
    """Postgres is spoken to in one place, the network in another."""
    for module in house.modules:
        found = {
            (line, client)
            for line, name in absolute_imports(module.tree)
            for client, places in CONFINED.items()
            if f"{name}.".startswith(f"{client}.") and module.layer not in places
        }
        yield from (f"{module.path}:{line}: imports {client}" for line, client in sorted(found))


def catches_what_it_means(house: House) -> Iterator[str]:
    """Only the guards catch everything; whoever cleans up and passes the exception on has caught nothing."""
    for module in house.modules:
        if module.layer in CATCH_ALL_ALLOWED or module.path.startswith(SHIM):
            continue
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ExceptHandler):
                last = node.body[-1]
                if isinstance(last, ast.Raise) and last.exc is None:
                    continue
                caught = {"everything"} if node.type is None else names_in(node.type)
            elif isinstance(node, ast.Call) and names_in(node.func) & {"suppress"}:
                caught = {name for argument in node.args for name in names_in(argument)}
            else:
                continue
            for name in sorted(caught & {"everything", "Exception", "BaseException"}):
                yield f"{module.path}:{node.lineno}: catches {name}"


def fits_in_the_head(house: House) -> Iterator[str]:
    """A module over the limit is asking to be two."""
    for module in house.modules:
        limit = MAX_ROOT_LINES if module.path == "__init__.py" else MAX_MODULE_LINES
        lines = len(module.source.splitlines())
        if lines > limit:
            yield f"{module.path}: {lines} lines, at most {limit}"


def says_what_it_does(house: House) -> Iterator[str]:
    """Every public module, class, function and method has a docstring."""
    for module in house.modules:
        if module.source.strip() and not ast.get_docstring(module.tree):
            yield f"{module.path}: no docstring"
        for node in public_definitions(module.tree.body):
            if not ast.get_docstring(node):
                yield f"{module.path}:{node.lineno}: {node.name} has no docstring"


def hides_no_module(house: House) -> Iterator[str]:
    """A package exports no name that one of its modules has, or an import would depend on the order of imports."""
    paths = {module.path for module in house.modules}
    for module in house.modules:
        if not module.path.endswith("__init__.py"):
            continue
        folder = module.path.removesuffix("__init__.py")
        for name, origin in bound_names(module.tree):
            is_module = f"{folder}{name}.py" in paths or f"{folder}{name}/__init__.py" in paths
            if is_module and origin != "." and not name.startswith("_"):
                yield f"{module.path}: the name {name} hides the module {folder}{name}"


def loads_from_the_standard_library(house: House) -> Iterator[str]:
    """The host executes top-level files one by one and keeps a failed one broken for the life of the process."""
    for module in house.modules:
        if not (module.is_top_level or (module.in_shim and module.path.count("/") == SHIM.count("/"))):
            continue
        for node in executed_at_import(module.tree.body):
            for line, name in imports_of(node):
                if name.split(".")[0] in sys.stdlib_module_names:
                    continue
                if module.path == "config_schema.py" and name == "plugins.memory.config_schema":
                    continue
                yield f"{module.path}:{line}: imports {name} when loaded"


def keeps_features_apart(house: House) -> Iterator[str]:
    """A feature of the operator's tool imports admin/common, never another feature; admin/common imports none."""
    for module in house.modules:
        if module.layer != "admin" or module.in_shim or module.path.count("/") < 2:
            continue
        own = module.path.split("/")[1]
        for line, target in relative_targets(module):
            if target[:1] == ["admin"] and len(target) > 1 and target[1] not in (own, "common"):
                yield f"{module.path}:{line}: {own} imports the feature {target[1]}"


def names_each_thing_once(house: House) -> Iterator[str]:
    """No module name and no public class name stands twice; each feature may have its `command.py`."""
    modules: defaultdict[str, list[str]] = defaultdict(list)
    classes: defaultdict[str, list[str]] = defaultdict(list)
    for module in house.modules:
        if module.in_shim:
            continue
        modules[module.path.split("/")[-1].removesuffix(".py")].append(module.path)
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name].append(module.path)
    twice = {name: paths for name, paths in {**modules, **classes}.items() if len(paths) > 1}
    for name in sorted(set(twice) - NAMED_TWICE):
        yield f"{name} is named twice: {', '.join(twice[name])}"


def compiles_patterns_late(house: House) -> Iterator[str]:
    """What an agent loads compiles no pattern before a text needs it: most texts need few of them."""
    for module in house.modules:
        if module.layer in WITHOUT_AGENT or module.is_top_level:
            continue
        for node in executed_at_import(module.tree.body):
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            for call in ast.walk(value) if value is not None else ():
                if isinstance(call, ast.Call) and ast.unparse(call.func) == "re.compile":
                    yield f"{module.path}:{call.lineno}: compiles a pattern when loaded, without late_pattern()"


RULES: tuple[Rule, ...] = (
    follows_the_layers,
    keeps_features_apart,
    names_each_thing_once,
    leaves_the_root_alone,
    imports_itself_relatively,
    keeps_clients_confined,
    catches_what_it_means,
    fits_in_the_head,
    says_what_it_does,
    hides_no_module,
    loads_from_the_standard_library,
    compiles_patterns_late,
)


def imports_of(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and module of an import statement; relative ones keep their dots."""
    if isinstance(node, ast.Import):
        yield from ((node.lineno, alias.name) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield node.lineno, "." * node.level + (node.module or "")


def relative_targets(module: Module) -> Iterator[tuple[int, list[str]]]:
    """Line and target of each relative import, as the parts of its path below the package."""
    folders = module.path.split("/")[:-1]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = folders[: len(folders) - node.level + 1] + (node.module.split(".") if node.module else [])
            yield from ((node.lineno, [*base, alias.name]) for alias in node.names)


def absolute_imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        yield from ((line, name) for line, name in imports_of(node) if not name.startswith("."))
        if isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def executed_at_import(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Every node that runs when the module is loaded; what only a type checker sees is left out."""
    for statement in body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(statement, ast.If) and "TYPE_CHECKING" in names_in(statement.test):
            yield from executed_at_import(statement.orelse)
            continue
        yield statement
        for field in ("body", "orelse", "finalbody"):
            yield from executed_at_import(getattr(statement, field, []))
        for handler in getattr(statement, "handlers", []):
            yield from executed_at_import(handler.body)


Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def public_definitions(body: list[ast.stmt]) -> Iterator[Definition]:
    for node in body:
        if not isinstance(node, Definition) or node.name.startswith("_"):
            continue
        # A setter or an overload is documented by the definition it belongs to.
        if any(names_in(decorator) & {"overload", "setter", "deleter"} for decorator in node.decorator_list):
            continue
        yield node
        # A protocol's methods say their contract in the class's docstring.
        if isinstance(node, ast.ClassDef) and not any("Protocol" in names_in(base) for base in node.bases):
            yield from public_definitions(node.body)


def bound_names(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each name a module binds when loaded, and the module it is imported from, or `""`."""
    for node in tree.body:
        if isinstance(node, Definition):
            yield node.name, ""
        elif isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, "." * node.level + (node.module or "")) for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, "") for target in targets if isinstance(target, ast.Name))


def names_in(node: ast.AST) -> set[str]:
    """Every identifier and attribute in an expression."""
    found = {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}
    return found | {child.attr for child in ast.walk(node) if isinstance(child, ast.Attribute)}


@pytest.fixture(scope="module")
def house() -> House:
    """This package, read once."""
    return House(PACKAGE)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_the_rule(house: House, rule: Rule) -> None:
    assert list(rule(house)) == []


PLANTED = [
    (follows_the_layers, "store/a.py", "def f():\n    from ..recall import search\n"),
    (follows_the_layers, "capture/a.py", "from ..recall.fuse import fuse\n"),
    (follows_the_layers, "elsewhere/a.py", ""),
    (keeps_features_apart, "admin/edit/a.py", "def f():\n    from ..browse.rows import listed\n"),
    (keeps_features_apart, "admin/edit/a.py", "from .. import browse\n"),
    (keeps_features_apart, "admin/common/a.py", "from ..browse import rows\n"),
    (names_each_thing_once, "store/search.py", ""),
    (names_each_thing_once, "store/a.py", "class B:\n    pass\n\n\nclass B:\n    pass\n"),
    (leaves_the_root_alone, "store/a.py", "from .. import register\n"),
    (imports_itself_relatively, "store/a.py", "import hermes_memory_pgvector.domain\n"),
    (keeps_clients_confined, "recall/a.py", "from psycopg import sql\n"),
    (keeps_clients_confined, "capture/a.py", "def f():\n    from urllib import request\n"),
    (catches_what_it_means, "store/a.py", "try:\n    pass\nexcept (ValueError, Exception):\n    pass\n"),
    (catches_what_it_means, "store/a.py", "try:\n    pass\nexcept:\n    pass\n"),
    (catches_what_it_means, "store/a.py", "with contextlib.suppress(Exception):\n    pass\n"),
    (fits_in_the_head, "store/a.py", "x = 1\n" * (MAX_MODULE_LINES + 1)),
    (fits_in_the_head, "__init__.py", "x = 1\n" * (MAX_ROOT_LINES + 1)),
    (says_what_it_does, "store/a.py", "x = 1\n"),
    (says_what_it_does, "store/a.py", '"""A."""\n\n\nclass B:\n    """B."""\n\n    def c(self): ...\n'),
    (hides_no_module, "recall/__init__.py", "from .search import search\n"),
    (loads_from_the_standard_library, "runtime.py", "import yaml\n"),
    (compiles_patterns_late, "recall/a.py", "import re\n\nWORDS = tuple(map(len, [re.compile(r'a')]))\n"),
    (
        loads_from_the_standard_library,
        "cli.py",
        "try:\n    from .domain import errors\nexcept ImportError:\n    pass\n",
    ),
]


@pytest.mark.parametrize(("rule", "path", "source"), PLANTED)
def test_the_rule_sees_a_violation(tmp_path: Path, rule: Rule, path: str, source: str) -> None:
    for existing in ("recall/search.py", path):
        (tmp_path / existing).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / existing).write_text('"""There."""\n', encoding="utf-8")
    assert list(rule(House(tmp_path))) == [] or rule in (follows_the_layers, names_each_thing_once)

    (tmp_path / path).write_text(source, encoding="utf-8")

    assert len(list(rule(House(tmp_path)))) == 1


def test_no_loose_ends() -> None:
    words = ("TO" + "DO", "FIX" + "ME")
    folders = ("pgvector", "tests", "scripts", "benchmarks", "docs", ".ci")
    files = [path for folder in folders for path in (REPOSITORY / folder).rglob("*") if path.is_file()]
    texts = [path for path in files if path.suffix in {".py", ".sql", ".sh", ".md", ".yaml", ".toml", ""}]
    assert texts
    assert [
        f"{path.relative_to(REPOSITORY)}: {word}"
        for path in texts
        for word in words
        if word in path.read_text(encoding="utf-8", errors="replace")
    ] == []


STEPS_ASIDE = frozenset(("skip", "skipif", "xfail", "importorskip", "skipIf", "skipUnless"))


def test_tests_neither_sleep_nor_step_aside() -> None:
    named = re.compile(rf"\b(?:sleep|{'|'.join(STEPS_ASIDE)})\b")
    found = []
    for path in sorted((REPOSITORY / "tests").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if not named.search(text):
            continue  # to parse them all takes seconds
        tree = ast.parse(text, str(path))
        for node in ast.walk(tree):
            if not isinstance(node, ast.Attribute) or node.attr not in {"sleep", *STEPS_ASIDE}:
                continue
            owner, name = ast.unparse(node.value), node.attr
            sleeps = (owner, name) == ("time", "sleep") and path.parts[-2:] != ("support", "waiting.py")
            if sleeps or (owner in {"pytest", "pytest.mark", "unittest"} and name in STEPS_ASIDE):
                found.append(f"{path.relative_to(REPOSITORY)}:{node.lineno}: {owner}.{name}")
        found += [
            f"{path.relative_to(REPOSITORY)}:{node.lineno}: sleep, imported by name"
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "time" and "sleep" in {a.name for a in node.names}
        ]
    assert found == []
