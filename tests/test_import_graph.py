"""Test that no modules import each other in a circle."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp


def import_circle(package: str, **options) -> list[str]:
    """Return the modules of one import circle in the package, the first again at the end; empty without one."""
    graph = grimp.build_graph(package, **options)
    imports = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_modules_have_no_import_circle():
    assert import_circle("gpufleet") == []


def test_import_circle_is_detected(tmp_path, monkeypatch):
    package = tmp_path / "circular"
    package.mkdir()
    for name, text in (("__init__", ""), ("a", "from circular import b\n"), ("b", "import circular.a\n")):
        (package / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    assert set(import_circle("circular", cache_dir=None)) == {"circular.a", "circular.b"}
