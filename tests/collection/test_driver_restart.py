"""Test the state table of NVIDIA's driver: every cell against the documented table and against a model of a boot."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from ansible_collections.gpufleet.fleet.plugins.module_utils import driver_restart as table
from ansible_collections.gpufleet.fleet.plugins.module_utils.driver_history import update_restart_attempt

DOCS = Path(__file__).parents[2] / "docs/driver-upgrades.md"
AXES = (table.INSTALLED, table.LOADED, table.KEY, table.NOUVEAU, table.SERVICES)
ALL = [table.DriverCell(*values) for values in product(*AXES)]
CELLS = [cell for cell in ALL if (cell.installed, cell.loaded) != ("none", "installed")]
VERSION, OTHER = "580.126.20", "570.172.08"


def cell_id(cell):
    return "-".join(cell)


def documented_rows():
    """Return the rows of the table in the docs: code, five patterns, action."""
    lines = [
        line.strip("| \n").split("|") for line in DOCS.read_text().splitlines() if line.startswith("| `")
    ]
    rows = [[column.strip(" `").replace(",", "") for column in line] for line in lines]
    return [row for row in rows if len(row) == len(table.TableRow._fields)]


def host_state(cell, **more):
    """Return what driver_state reads on a host in this cell."""
    installed = None if cell.installed == "none" else VERSION
    services = {} if cell.services == "none" else {"nvidia-persistenced.service": cell.services}
    return {
        "installed": installed,
        "built": VERSION if cell.installed == "built" else None,
        "nvidia_loaded": {"none": None, "installed": VERSION, "other": OTHER}[cell.loaded],
        "signing_key": cell.key,
        "nouveau": cell.nouveau == "yes",
        "services": services,
        "kernel": "6.1.0-18-amd64",
        "container": None,
        "load_error": "",
        **more,
    }


def boot(cell, *, confirms):
    """Return the cell after a boot: the role blocked nouveau, and the daemons refuse every module but theirs."""
    key = "enrolled" if cell.key == "pending" and confirms else cell.key
    loads = cell.installed == "built" and key in ("not_needed", "enrolled")
    services = "none" if cell.services == "none" else "running" if loads else "failed"
    loaded = "installed" if loads else "none"
    return cell._replace(key=key, nouveau="no", loaded=loaded, services=services)


@pytest.mark.parametrize("cell", CELLS, ids=cell_id)
def test_cell_has_one_row_and_it_is_documented(cell):
    row = table.find_table_row(cell)
    documented = [
        (code, action)
        for code, *patterns, action in documented_rows()
        if all(
            pattern == "*" or value in pattern.split() for pattern, value in zip(patterns, cell, strict=True)
        )
    ]
    assert documented == [(row.code, row.action)]


@pytest.mark.parametrize("cell", CELLS, ids=cell_id)
def test_action_of_a_cell_is_what_a_boot_can_change(cell):
    action = table.find_table_row(cell).action
    cured = table.find_table_row(boot(cell, confirms=True)).action in table.START_ACTIONS
    if action in table.START_ACTIONS:
        assert (cell.loaded, cell.nouveau) == ("installed", "no")
    elif action != "none":
        assert cured == (action in table.RESTART_ACTIONS)
    if action == "ready":
        assert cell.services in ("none", "running")


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.installed != "none"], ids=cell_id)
def test_no_cell_restarts_twice_for_the_same_reason(cell):
    decision = table.decide_driver_action(host_state(cell))
    if decision["action"] not in table.RESTART_ACTIONS:
        return
    for confirms in (True, False):
        state = host_state(boot(cell, confirms=confirms))
        state["decision"] = table.decide_driver_action(state)
        history = update_restart_attempt({"tried": {}}, state, has_restarted=True)
        assert table.decide_driver_action(state, history["tried"])["action"] in ("ready", "blocked")


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.installed != "none"], ids=cell_id)
def test_state_of_a_host_is_classified_as_its_cell(cell):
    assert table.classify_driver_state(host_state(cell)) == cell


@pytest.mark.parametrize("cell", CELLS, ids=cell_id)
def test_container_neither_restarts_nor_fails(cell):
    assert table.decide_driver_action(host_state(cell, container="lxc"))["action"] in (
        "none",
        "wait",
        *table.START_ACTIONS,
    )


def test_state_that_no_host_has_is_refused():
    with pytest.raises(ValueError, match="0 rows"):
        table.find_table_row(table.DriverCell("none", "installed", "not_needed", "no", "none"))


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        (
            ("built", "other", "not_needed", "no", "running"),
            f"driver {OTHER} is loaded, {VERSION} is installed",
        ),
        (("built", "none", "not_needed", "yes", "stopped"), "nouveau holds the cards"),
        (("built", "none", "pending", "no", "stopped"), "choose 'Enroll MOK'"),
        (("built", "none", "missing", "no", "stopped"), "set nvidia_driver_mok_password"),
        (
            ("unbuilt", "none", "not_needed", "no", "none"),
            "for kernel 6.1.0-18-amd64: install that kernel's headers",
        ),
        (("built", "installed", "not_needed", "no", "failed"), "nvidia-persistenced.service does not run"),
    ],
)
def test_reason_names_versions_and_remedy(cell, words):
    assert words in table.decide_driver_action(host_state(table.DriverCell(*cell)))["reason"]


def test_restart_that_did_not_help_is_reported_with_its_remedy():
    state = host_state(table.DriverCell("built", "none", "pending", "no", "failed"))
    tried = {"code": "key_pending", "installed": VERSION}
    decision = table.decide_driver_action(state, tried)
    assert decision["action"] == "blocked"
    assert "a restart did not change that: nobody confirmed the key at the console" in decision["reason"]
    assert table.decide_driver_action(state, {**tried, "installed": OTHER})["action"] == "restart"


def test_only_a_missing_module_makes_a_restart_lose_the_driver():
    for code, loaded, loses in (
        ("key_missing", "other", True),
        ("not_built", "other", True),
        ("key_missing", "none", False),
        ("old_module", "other", False),
    ):
        decision = {"code": code, "action": "blocked", "reason": "", "remedy": "", "cell": {"loaded": loaded}}
        assert table.would_lose_driver(decision) is loses


def test_worst_daemon_counts():
    assert table.summarize_services({"a": "running", "b": "stopped", "c": "failed"}) == "failed"
    assert table.summarize_services({"a": "running", "b": "stopped"}) == "stopped"
    assert table.summarize_services({}) == "none"
