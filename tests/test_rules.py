"""Rules that every file of the library follows; docs/index.md lists them."""

from __future__ import annotations

import ast
import re
import tokenize
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = sorted((ROOT / "nirbridge").rglob("*.py"))
# A room may import itself and the rooms before it. The rooms of the last line know all others.
ROOMS = (
    ("errors",),
    ("arrays",),
    ("_types", "_version"),
    ("files",),
    ("_values",),
    ("network",),
    ("chips",),
    ("importers",),
    ("passes",),
    ("quantization",),
    ("program",),
    ("partitioner",),
    ("mapping",),
    ("simulators",),
    ("events",),
    ("dialect",),
    ("emitters",),
    ("comparison",),
    ("verification",),
    ("profiling",),
    ("benchmarking",),
    ("report",),
    ("viewer",),
    ("plugins",),
    ("pipeline",),
    ("sweeps",),
    ("api",),
    ("cli",),
    ("testing", "__main__"),
)
ORDER = {room: rank for rank, rooms in enumerate(ROOMS) for room in rooms}
BELOW_CLI = {"_types", "_version", "files", "api", "pipeline", "plugins", "errors", "report", "viewer", "sweeps", "cli"}
"""Rooms that a command may use."""
LINES_MAX, FUNCTION_LINES_MAX, FILES_PER_FOLDER = 500, 30, 20
LONG_FUNCTIONS = {
    "emitters/lava/plan/fixed.py:_plan": 33,
    "emitters/lava/plan/floating.py:floating_plan": 31,
    "partitioner/cost/axons.py:axon_table": 34,
    "partitioner/search/column_generation.py:generate": 32,
    "partitioner/search/column_generation.py:master_problem": 33,
    "partitioner/search/methods.py:fewest_cores": 36,
    "quantization/quantize.py:quantize": 33,
    "simulators/__init__.py:run": 33,
    "simulators/compiled/backend.py:compiled_backend": 34,
    "testing/strategies.py:random_neuron": 31,
}
"""Functions longer than the rule, as long as they are: these may shrink, and no other may join them."""
TOUCHES_FILES = {
    *("open", "read_text", "read_bytes", "write_text", "write_bytes", "touch", "ZipFile", "is_zipfile", "TarFile"),
    *("memmap", "open_memmap", "fromfile", "tofile", "np.load", "np.save", "np.savez", "np.savez_compressed"),
    *("loadtxt", "savetxt", "genfromtxt", "mkdtemp", "mkstemp", "mktemp", "TemporaryDirectory"),
    *("TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile", "copyfile", "copy2", "copytree"),
}
"""Calls that open a file by its name or make one: these are the work of ``files/``, whose functions wait for nothing,
follow no link that no user named, and leave nothing."""
NO_FILES = {
    "cores.open": "a core of a chip",
    "filling.open": "a core of a chip",
    "self.open": "a core of a chip",
    "self.filling.open": "a core of a chip",
    "archive.open": "a member of an archive that is open",
    "webbrowser.open": "a page that was written",
    "h5.h5a.open": "an attribute of a file that is open",
    "h5.h5o.open": "an object of a file that is open",
    "touch": "a counter of a kernel",
}
BESIDE_FILES = {
    "cli/streams.py:open": "descriptors of the standard streams",
    "cli/streams.py:os.open": "the null device in place of a closed stream",
    "emitters/c/run.py:np.fromfile": "a file that is open",
    "emitters/iree/module.py:np.load": "bytes in memory",
    "emitters/lava/runtime/guard.py": "a program of its own, which imports nothing of nirbridge",
}
"""The files, or their calls, that may, and why."""
READS_JSON = {
    "files/json_text.py": "the reader",
    "emitters/lava/runtime/guard.py": "a program of its own, which imports nothing of nirbridge",
    "emitters/serve.py": "a program of its own, which imports nothing of nirbridge",
    "cli/output.py": "what it has just written",
    "mapping/checker/check.py": "what it has just written",
    "simulators/mapped/simulate.py": "what it has just written",
    "verification/storage.py": "what it has just written",
    "passes/text.py": "a word in quotes of an option, with the escapes of JSON",
}
"""The files that may call ``json.loads``, and why; all others read texts with ``parse_json``, which has limits."""
TEXTS = ("*.py", "*.toml", "*.md", "*.txt", "*.json", "Makefile", ".ci/run")
SKIPPED = {
    ".git",
    ".venv",
    ".venv-stack",
    ".venv-compilers",
    ".hypothesis",
    ".pytest_cache",
    ".ruff_cache",
    "__pycache__",
    "build",
    "dist",
}
MACHINE_PATH = re.compile(r"(?<![\w.])/(work|tmp|home|root|Users|opt|mnt)/\w")
HOSTS = re.compile(r"(files\.pythonhosted|pypi\.org|/simple\b)")


def relative(path: Path) -> str:
    return path.relative_to(ROOT / "nirbridge").as_posix()


def module_name(path: Path) -> str:
    """``nirbridge.network.model``; of a package without its ``__init__``."""
    return ".".join(("nirbridge", *Path(relative(path)).with_suffix("").parts)).removesuffix(".__init__")


def room_of(path: Path) -> str:
    first = Path(relative(path)).parts[0]
    return first.removesuffix(".py")


def module_of(path: Path) -> str:
    return f"nirbridge.{relative(path).removesuffix('.py').replace('/', '.')}".removesuffix(".__init__")


def tree(path: Path) -> ast.Module:
    with tokenize.open(path) as file:
        return ast.parse(file.read(), filename=relative(path))


def imported_modules(module: ast.Module) -> Iterator[str]:
    """Every module of nirbridge that is imported anywhere in the file, inside functions too."""
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            name = node.module or ""
            yield from (f"{name}.{alias.name}" for alias in node.names) if name == "nirbridge" else (name,)


def at_run_time(module: ast.Module) -> Iterator[ast.AST]:
    """Every node but those below ``if TYPE_CHECKING``."""
    checked = [n for n in ast.walk(module) if isinstance(n, ast.If) and ast.unparse(n.test) == "TYPE_CHECKING"]
    typed = {id(inner) for node in checked for child in node.body for inner in ast.walk(child)}
    yield from (node for node in ast.walk(module) if id(node) not in typed)


def imported_at_run_time(module: ast.Module) -> Iterator[str]:
    """As ``imported_modules``, without what only a type checker imports."""
    kept: list[ast.stmt] = [n for n in at_run_time(module) if isinstance(n, ast.Import | ast.ImportFrom)]
    yield from imported_modules(ast.Module(kept, []))


def circle(modules: Mapping[str, ast.Module]) -> list[str]:
    """The names along one circle of imports at run time, inside functions too; empty where there is none."""
    sorter: TopologicalSorter[str] = TopologicalSorter()
    for name, module in modules.items():
        sorter.add(name, *(set(submodules_imported(module, modules)) & modules.keys()))
    try:
        sorter.prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def submodules_imported(module: ast.Module, known: Mapping[str, ast.Module]) -> Iterator[str]:
    """As ``imported_at_run_time``; ``from package import submodule`` is the submodule, if that is a known module."""
    for node in at_run_time(module):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            inner = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in known else node.module or "" for name in inner)


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the body, the docstring not counted."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (function.end_lineno or 0) - body[0].lineno + 1 if body else 0


def names_from_partitioner(module: ast.Module) -> Iterator[tuple[str, str]]:
    """(module, name) of everything imported from the room of the search; a whole module counts as ``*``."""
    for node in ast.walk(module):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nirbridge.partitioner"):
            yield from ((node.module or "", alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((a.name, "*") for a in node.names if a.name.startswith("nirbridge.partitioner"))


def calls(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def public_functions(module: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions and methods a user can reach: no underscore, not inside a function or a private class."""
    bodies = [module.body]
    while bodies:
        for node in bodies.pop():
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                bodies.append(node.body)
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
                yield node


def tracked_texts() -> list[Path]:
    found = (path for pattern in TEXTS for path in ROOT.rglob(pattern))
    return sorted(p for p in found if p.is_file() and SKIPPED.isdisjoint(p.relative_to(ROOT).parts))


files = pytest.mark.parametrize("path", LIBRARY, ids=relative)


@files
def test_rooms_import_only_from_rooms_above(path: Path) -> None:
    room = room_of(path)
    if room == "__init__":
        allowed = len(ROOMS)
    else:
        assert room in ORDER, f"room {room!r} is not in the list of rooms"
        allowed = ORDER[room]
    for name in imported_modules(tree(path)):
        parts = name.split(".")
        if parts[0] == "nirbridge" and len(parts) > 1 and parts[1] in ORDER:
            assert ORDER[parts[1]] <= allowed, f"{relative(path)} imports {name}, a room below its own"


def test_no_circle_of_imports() -> None:
    """Each module can be read after those that it imports, also where the import stands inside a function."""
    assert circle({module_name(path): tree(path) for path in LIBRARY}) == []


@pytest.mark.parametrize(
    ("a", "b", "found"),
    [
        ("import p.b", "import p.a", True),
        ("from p import b", "from p.a import x", True),
        ("def f():\n    from p.b import y", "from p.a import x", True),
        ("from p import b", "from p import x", False),
        ("if TYPE_CHECKING:\n    from p.b import y", "from p.a import x", False),
    ],
)
def test_a_planted_circle_is_found(a: str, b: str, found: bool) -> None:
    names = circle({"p": ast.parse(""), "p.a": ast.parse(a), "p.b": ast.parse(b)})
    assert set(names) == ({"p.a", "p.b"} if found else set())


def test_no_command_imports_another() -> None:
    from nirbridge.cli.main import COMMANDS

    commands = {where.partition(":")[0] for _, where, _ in COMMANDS}
    assert commands <= {module_name(path) for path in LIBRARY}
    for path in LIBRARY:
        others = commands - {module_name(path)}
        assert others.isdisjoint(submodules_imported(tree(path), dict.fromkeys(commands, ast.Module([], []))))


@pytest.mark.parametrize("path", [p for p in LIBRARY if room_of(p) == "cli"], ids=relative)
def test_commands_use_the_pipeline_and_nothing_deeper(path: Path) -> None:
    used = [name for name in imported_at_run_time(tree(path)) if name.split(".")[0] == "nirbridge"]
    assert [name for name in used if name.split(".")[1] not in BELOW_CLI] == []


@files
def test_files_and_functions_are_short(path: Path) -> None:
    name, text = relative(path), path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= LINES_MAX
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            most = LONG_FUNCTIONS.get(f"{name}:{node.name}", FUNCTION_LINES_MAX)
            assert code_lines(node) <= most, f"{node.name} has {code_lines(node)} lines"


@files
def test_only_the_command_line_prints_or_exits(path: Path) -> None:
    forbidden = {"print", "sys.exit", "exit", "quit", "os._exit", "breakpoint"}
    if room_of(path) in {"cli", "__main__"}:
        forbidden.remove("sys.exit")
    if relative(path) in {"cli/__init__.py", "cli/interrupts.py"}:
        forbidden.remove("os._exit")
    assert forbidden.isdisjoint(calls(tree(path)))


def file_calls(module: ast.Module) -> set[str]:
    """The calls that open a file by its name or make one."""
    found = set(calls(module)) - NO_FILES.keys()
    return {name for name in found if name in TOUCHES_FILES or name.rpartition(".")[2] in TOUCHES_FILES}


@files
def test_only_the_room_of_files_opens_files(path: Path) -> None:
    name = relative(path)
    if room_of(path) != "files" and name not in BESIDE_FILES:
        assert {call for call in file_calls(tree(path)) if f"{name}:{call}" not in BESIDE_FILES} == set()


def test_every_exception_is_needed() -> None:
    found = {relative(path): set(calls(tree(path))) for path in LIBRARY}
    assert NO_FILES.keys() <= set().union(*found.values())
    for text in BESIDE_FILES:
        name, _, call = text.partition(":")
        assert call in found[name] if call else file_calls(tree(ROOT / "nirbridge" / name))


def reads_json(module: ast.Module) -> bool:
    """Whether a file reads JSON with the module ``json`` itself, under whatever name."""
    readers = {"load", "loads", "JSONDecoder"}
    for node in ast.walk(module):
        if isinstance(node, ast.Import) and any(a.name == "json" and a.asname for a in node.names):
            return True
        named = {a.name for a in node.names} if isinstance(node, ast.ImportFrom) and node.module == "json" else set()
        if named & readers:
            return True
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "json" and node.attr in readers:
            return True
    return False


def test_only_one_file_reads_json() -> None:
    assert {relative(path) for path in LIBRARY if reads_json(tree(path))} == READS_JSON.keys()


@pytest.mark.parametrize(
    ("line", "found"),
    [
        *((line, True) for line in ("json.loads(x)", "json.load(x)", "f = json.loads", "json.JSONDecoder()")),
        *((line, True) for line in ("from json import loads", "import json as j")),
        *((line, False) for line in ("import json", "json.dumps(x)", "from json import JSONDecodeError", "x.loads(y)")),
    ],
)
def test_a_planted_reader_of_json_is_found(line: str, found: bool) -> None:
    assert reads_json(ast.parse(line)) is found


@pytest.mark.parametrize(
    "line",
    [
        *("open('a')", "io.open('a')", "os.open('a', 0)", "path.open()", "Path('a').open('rb')", "a.b.open('wb')"),
        *("zipfile.ZipFile('a')", "ZipFile('a')", "np.memmap('a')", "np.load('a')", "tempfile.mkdtemp()"),
        *("(folder / 'a').read_text()", "Path('a').write_bytes(b'')", "tempfile.TemporaryDirectory()"),
    ],
)
def test_a_planted_opening_is_found(line: str) -> None:
    assert file_calls(ast.parse(f"def f(path):\n    return [{line} for _ in path]"))


@files
def test_public_functions_say_what_they_return(path: Path) -> None:
    for function in public_functions(tree(path)):
        overload = any(ast.unparse(d) == "overload" for d in function.decorator_list)
        setter = any(ast.unparse(d).endswith(".setter") for d in function.decorator_list)
        assert function.returns is not None, f"{function.name} has no return type"
        assert overload or setter or ast.get_docstring(function), f"{function.name} has no docstring"


@files
def test_every_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(tree(path)), "no docstring"


def test_the_checker_shares_nothing_with_the_search() -> None:
    """Of all that the checker uses, directly or not, only records and the cost vector are the search's."""
    names = {module_of(p): p for p in LIBRARY}
    reached, todo, shared = set(), ["nirbridge.mapping.checker.check"], set()
    while todo:
        name = todo.pop()
        if name in reached or name not in names:
            continue
        reached.add(name)
        module = tree(names[name])
        shared |= {f"{m.removeprefix('nirbridge.partitioner.')}.{n}" for m, n in names_from_partitioner(module)}
        todo.extend(m for m in imported_modules(module) if not m.startswith("nirbridge.partitioner"))
    assert "cost.resources.limits" in shared
    assert {n for n in shared if not n.startswith(("cost.resources.", "model."))} <= {
        "cost.axons.HOST",
        "cost.axons.AxonTable",
    }
    assert not {name for name in reached if name.startswith("nirbridge.mapping.placement")}


@pytest.mark.parametrize("path", tracked_texts(), ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_paths_of_a_machine_and_no_registry_hosts(path: Path) -> None:
    if path == Path(__file__):
        pytest.skip("this file has the patterns")
    text = path.read_text(encoding="utf-8")
    assert MACHINE_PATH.search(text) is None
    assert HOSTS.search(text) is None


FOLDERS = sorted({p.parent for top in ("nirbridge", "tests") for p in (ROOT / top).rglob("*.py")})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_folder_is_crowded(folder: Path) -> None:
    assert len([p for p in folder.iterdir() if p.is_file()]) <= FILES_PER_FOLDER


def test_no_file_is_over_one_megabyte() -> None:
    big = [
        p.relative_to(ROOT).as_posix()
        for p in ROOT.rglob("*")
        if SKIPPED.isdisjoint(p.relative_to(ROOT).parts) and p.is_file() and p.stat().st_size > 1_000_000
    ]
    assert big == []


def test_the_version_is_the_same_everywhere() -> None:
    import tomllib

    import nirbridge
    from nirbridge import _version

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "nirbridge._version.__version__"}
    assert nirbridge.__version__ == _version.__version__
    assert f"## [{nirbridge.__version__}]" in (ROOT / "CHANGELOG.md").read_text()
