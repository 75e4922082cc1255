"""Test that any input gives a fleet or a one-line error, never a traceback."""

from __future__ import annotations

import copy

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from gpufleet import fleet
from gpufleet.errors import InputError

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=12),
    st.sampled_from(["spot", "aws", "T4"]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def list_paths(node, path=()):
    """Return the path of everything in a document."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    outcome = [path] if path else []
    for key, value in items:
        outcome += list_paths(value, (*path, key))
    return outcome


def replace_value(document, path, value):
    """Return a copy with something else at ``path``."""
    changed = copy.deepcopy(document)
    node = changed
    for step in path[:-1]:
        node = node[step]
    node[path[-1]] = value
    return changed


def read_error(read):
    """Return the error that reading ends in, empty where it is accepted."""
    try:
        read()
    except InputError as error:
        return str(error)
    return ""


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_in_a_stack_is_accepted_or_refused_in_one_line(repo_root, data):
    text = (repo_root / "stacks/Pulumi.production.yaml").read_text()
    declared = YAML(typ="safe").load(text)["config"]["gpufleet:fleet"]
    path = data.draw(st.sampled_from(list_paths(declared)))
    line = read_error(
        lambda: fleet.parse_fleet(replace_value(declared, path, data.draw(VALUES)), root=repo_root)
    )
    assert line.isprintable()
    assert line == "" or "gpufleet:fleet" in line


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_any_value_in_a_rack_is_accepted_or_refused_in_one_line(repo_root, tmp_path, data):
    declared = YAML(typ="safe").load((repo_root / "inventory/blades-1.yaml").read_text())
    path = data.draw(st.sampled_from(list_paths(declared)))
    file = tmp_path / "blades-1.yaml"
    with file.open("w") as stream:
        YAML(typ="safe").dump(replace_value(declared, path, data.draw(VALUES)), stream)
    line = read_error(lambda: fleet.load_rack(file, tmp_path))
    assert line.isprintable()
    assert line == "" or line.startswith("blades-1.yaml")
