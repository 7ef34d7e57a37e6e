"""The probe is one file that runs far away, on old Pythons, with nothing of this project."""

from __future__ import annotations

import ast
import sys

from benchmarking.probe import PROBE_PATH

TREE = ast.parse(PROBE_PATH.read_text(encoding="utf-8"))


def imported_names(tree: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a relative import needs a package around the probe"
            names.add((node.module or "").split(".")[0])
    return names


def test_syntax_is_that_of_python_3_8() -> None:
    ast.parse(PROBE_PATH.read_text(encoding="utf-8"), feature_version=(3, 8))


def test_it_imports_torch_and_the_standard_library_only() -> None:
    foreign = imported_names(TREE) - set(sys.stdlib_module_names)

    assert foreign == {"torch", "torchvision"}


def test_torch_is_imported_when_it_is_needed_and_not_before() -> None:
    at_the_top = imported_names(ast.Module([node for node in TREE.body if _is_import(node)], []))

    assert not at_the_top & {"torch", "torchvision"}


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def test_it_annotates_nothing_that_python_3_8_lacks() -> None:
    newer = {
        node.attr
        for node in ast.walk(TREE)
        if isinstance(node, ast.Attribute)
        and node.attr in {"removeprefix", "removesuffix", "pairwise", "UTC", "cache"}
    }

    assert newer == set()


def test_one_code_path_times_both_kinds_of_device() -> None:
    functions = {node.name: node for node in ast.walk(TREE) if isinstance(node, ast.FunctionDef)}
    for name in ("collect", "time_convolution", "convolution_runs", "time_item"):
        strings = {
            node.value for node in ast.walk(functions[name]) if isinstance(node, ast.Constant)
        }
        assert not strings & {"cuda", "cpu"}, f"{name} treats a device differently"
