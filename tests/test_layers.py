"""The layout is the argument: imports point down the layers, and importing the package is light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import thresher

ROOT = Path(thresher.__file__).parent

# From the ground up; each may import itself and what stands before it.
LAYERS = [
    "_version",
    "errors",
    "files",
    "private_directory",
    "clock",
    "addresses",
    "unreachable",
    "charts",
    "privacy",
    "mechanism",
    "testing",
    "questions",
    "ledger",
    "tables",
    "verbs",
    "protocol",
    "device",
    "roles",
    "server",
    "client",
    "console",
    "simulator",
    "lab",
    "cli",
    "__main__",
]


def layer_of(module: str) -> str | None:
    parts = module.split(".")
    return parts[1] if parts[0] == "thresher" and len(parts) > 1 else None


def imported_layers(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {layer_of(alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "thresher":
                found |= {alias.name for alias in node.names if alias.name in LAYERS}
            else:
                found.add(layer_of(node.module))
    return {name for name in found if name}


def test_imports_point_down():
    checked = 0
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).with_suffix("").parts[0]
        if name == "__init__":
            continue
        assert name in LAYERS, f"{path} belongs to no layer"
        allowed = set(LAYERS[: LAYERS.index(name) + 1])
        upward = imported_layers(path) - allowed
        assert not upward, f"{path.relative_to(ROOT)} imports upward: {sorted(upward)}"
        checked += 1
    assert checked > 20


def imported_modules(path: Path, modules: set[str]) -> set[str]:
    """The modules of Thresher that are imported when this one is: not what only type checkers or functions import."""
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom) and node.module in modules:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= (names & modules) or {node.module}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names} & modules
    return found


def in_a_cycle(graph: dict[str, set[str]]) -> set[str]:
    """What is left of a graph when everything without a way out, or without a way in, is taken off again and again."""
    left = {name: set(others) - {name} for name, others in graph.items()}
    while True:
        wanted = set().union(*left.values()) if left else set()
        ends = {name for name, others in left.items() if not others & set(left) or name not in wanted}
        if not ends:
            return set(left)
        left = {name: others for name, others in left.items() if name not in ends}


def test_no_modules_import_each_other():
    paths = {}
    for path in ROOT.rglob("*.py"):
        parts = ("thresher", *path.relative_to(ROOT).with_suffix("").parts)
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {name: imported_modules(path, set(paths)) for name, path in paths.items()}
    assert len(graph) > 200 and sum(map(len, graph.values())) > 500
    assert in_a_cycle(graph) == set()
    assert in_a_cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == {"a", "b", "c"}  # the check can fail


def test_the_check_can_fail(tmp_path):
    file = tmp_path / "low.py"
    file.write_text("from thresher.cli import main\nfrom thresher import mechanism\n")
    assert imported_layers(file) == {"cli", "mechanism"}


ENGINES = [
    "pandas",
    "polars",
    "duckdb",
    "pyspark",
    "pyarrow",
    "narwhals",
    "dask",
    "altair",
    "starlette",
    "fastapi",
    "scipy",
]


def test_import_loads_no_engine():
    code = f"import sys, thresher; print([name for name in {ENGINES} if name in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "[]"


def test_import_loads_no_fleet_until_one_is_named():
    code = "import sys, thresher as th; print('thresher.protocol' in sys.modules, th.Device.__name__)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.split() == ["False", "Device"]


def test_a_name_that_does_not_exist():
    with pytest.raises(AttributeError, match="no attribute 'Fleets'"):
        thresher.Fleets  # noqa: B018


def test_every_public_name_exists_and_is_sorted():
    for module in (thresher, thresher.privacy, thresher.mechanism, thresher.privacy.paper):
        assert all(hasattr(module, name) for name in module.__all__)
        assert len(set(module.__all__)) == len(module.__all__)


def test_names_can_be_completed():
    assert set(thresher.__all__) <= set(dir(thresher))
    assert set(thresher.privacy.__all__) <= set(dir(thresher.privacy))


def test_packages_only_re_export():
    for path in ROOT.rglob("__init__.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for node in body:
            if isinstance(node, ast.FunctionDef) and node.name in ("__getattr__", "__dir__"):
                continue  # re-exports later
            allowed = (ast.Import, ast.ImportFrom, ast.Assign, ast.Expr, ast.If)
            assert isinstance(node, allowed), f"{path.relative_to(ROOT)} holds code"
