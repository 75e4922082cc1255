"""Test the record of installed drivers, rollbacks and required restarts."""

from __future__ import annotations

import json

import pytest

from ansible_collections.gpufleet.fleet.plugins.module_utils import driver_history
from ansible_collections.gpufleet.fleet.plugins.modules import driver_state as module

OLD = {"nvidia-open": "570.172.08-1", "nvidia-driver-cuda": "570.172.08-1"}
NEW = [{"name": "nvidia-open", "version": "580.95.05-1"}, {"name": "nvidia-persistenced", "version": None}]


def state(packages=OLD, **more):
    defaults = {
        "packages": packages,
        "held": ["nvidia-open"],
        "kernel": "6.8",
        "loaded": None,
        "installed": "570.172.08",
    }
    return {**defaults, "built": None, "container": None, **more}


def params(target_packages=NEW, **more):
    return {
        "planned_packages": target_packages,
        "reason": "upgrade to 580.95.05",
        "rolled_back": False,
        **more,
    }


EMPTY = {"sets": [], "rolled_back_from": {}, "tried": {}}


@pytest.mark.parametrize(
    ("version", "plain"),
    [
        ("535.261.03-1", "535.261.03"),
        ("580.95.05-0ubuntu0.24.04.2", "580.95.05"),
        ("3:575.51-1.el9", "575.51"),
        (None, None),
    ],
)
def test_version_is_read_without_epoch_and_revision(version, plain):
    assert module.parse_upstream_version(version) == plain


def test_driver_set_contains_only_driver_packages():
    names = ["libcuda1", "nvidia-smi", "nvidia-fabricmanager", "firmware-nvidia-gsp", "cuda-drivers"]
    others = ["nvidia-container-toolkit", "nvidia-cuda-toolkit", "libcudart11.0", "cuda-toolkit-12-8", "bash"]
    assert sorted(module.select_driver_packages(dict.fromkeys([*names, *others], "1"))) == sorted(names)


@pytest.mark.parametrize(
    "name",
    ["nvidia-kernel-dkms", "nvidia-open-kernel-dkms", "nvidia-kernel-open-dkms", "kmod-nvidia-open-dkms"],
)
def test_installed_version_is_that_of_the_module_package(name):
    assert (
        module.first_matching_version(
            {name: "580.95.05-1", "nvidia-kernel-support": "1"}, module.MODULE_PACKAGE
        )
        == "580.95.05"
    )


@pytest.mark.parametrize(
    ("loaded", "answered", "version"),
    [
        ("580.159.04", "580.159.04", "580.159.04"),  # an H100 machine whose image has no kmod, 2026-11-23
        ("580.159.04", None, None),
        ("580.159.04", "580.95.05", None),
        (None, None, None),
    ],
)
def test_loaded_driver_that_works_is_installed_without_package_and_modinfo(loaded, answered, version):
    assert module.find_image_driver_version(loaded, {"driver": answered}) == version


def test_driver_set_is_recorded_before_it_is_replaced():
    saved_sets = module.update_driver_history(EMPTY, state(), params())["sets"]
    assert [(set_["packages"], set_["held"], set_["reason"]) for set_ in saved_sets] == [
        (OLD, ["nvidia-open"], params()["reason"])
    ]


def test_unchanged_driver_set_is_not_recorded():
    same_packages = [
        {"name": "nvidia-open", "version": "570.172.08-1"},
        {"name": "nvidia-driver-cuda", "version": ""},
    ]
    assert module.update_driver_history(EMPTY, state(), params(same_packages)) == EMPTY
    assert module.update_driver_history(EMPTY, state(), params([])) == EMPTY
    assert module.update_driver_history(EMPTY, state({}), params())["sets"] == []


def test_repeated_attempt_records_the_set_once():
    history = module.update_driver_history(EMPTY, state(), params())
    assert module.update_driver_history(history, state(), params()) == history


def test_last_five_driver_sets_are_kept():
    record = EMPTY
    for number in range(8):
        record = module.update_driver_history(record, state({"nvidia-open": f"570.{number}-1"}), params())
    assert [set_["packages"]["nvidia-open"] for set_ in record["sets"]] == [f"570.{n}-1" for n in range(3, 8)]


def test_rollback_is_noted_until_another_driver_is_installed():
    history = module.update_driver_history(EMPTY, state(), params(rolled_back=True))
    assert history["rolled_back_from"] == OLD
    assert (
        module.update_driver_history(history, state({"nvidia-open": "1"}), params())["rolled_back_from"] == {}
    )


def test_rollback_lists_versions_to_install_packages_to_remove_and_holds():
    back = module.plan_package_rollback(state(), NEW, ["nvidia-open", "nvidia-persistenced"])
    assert back["present"] == ["nvidia-driver-cuda=570.172.08-1", "nvidia-open=570.172.08-1"]
    assert back["absent"] == ["nvidia-persistenced"]
    assert (back["held"], back["unheld"]) == (["nvidia-open"], ["nvidia-persistenced"])


def test_damaged_record_is_replaced_by_an_empty_one(tmp_path):
    file = tmp_path / "lib/drivers.json"
    assert module.read_driver_history(file) == EMPTY
    module.write_driver_history(file, module.update_driver_history(EMPTY, state(), params()))
    assert module.read_driver_history(file)["sets"][0]["packages"] == OLD
    file.write_text('{"sets": [')
    assert module.read_driver_history(file) == EMPTY
    assert [path.name for path in file.parent.iterdir()] == ["drivers.json"]


class Quiet:
    def run_tool(self, *_command):
        return None, ""


@pytest.mark.parametrize(
    ("code", "action", "loaded", "reasons"),
    [
        ("old_module", "restart", "other", ["why"]),
        ("not_loaded", "load", "none", ["why"]),
        ("key_missing", "blocked", "other", []),
        ("ready", "ready", "installed", []),
        ("not_loaded", "wait", "none", []),
    ],
)
def test_restart_is_needed_if_the_decision_says_so(code, action, loaded, reasons):
    decision = {"code": code, "action": action, "reason": "why", "remedy": "", "cell": {"loaded": loaded}}
    assert [
        reason for reason in module.find_restart_reasons(decision, Quiet()) if "package" not in reason
    ] == reasons


class Systemctl(module.DriverStateReader):
    """A reader on a host where systemctl prints a text."""

    def __init__(self, text):
        self.text = text

    def run_tool(self, *_command):
        return 0, self.text


def test_only_enabled_daemons_have_a_state():
    unit = "Id=nvidia-{}.service\nUnitFileState={}\nActiveState={}"
    text = "\n\n".join(
        [unit.format("persistenced", "enabled", "failed"), unit.format("fabricmanager", "disabled", "active")]
    )
    assert Systemctl(text).read_enabled_services() == {"nvidia-persistenced.service": "failed"}
    assert Systemctl("systemctl: not found").read_enabled_services() == {}


def test_record_is_indented_json(tmp_path):
    file = tmp_path / "drivers.json"
    module.write_driver_history(file, EMPTY)
    assert json.loads(file.read_text()) == EMPTY
    assert file.read_text().count("\n") > 2


def test_recorded_driver_set_is_complete(monkeypatch):
    monkeypatch.setattr(driver_history.time, "gmtime", lambda: (2026, 11, 22, 9, 5, 7, 6, 326, 0))
    (saved_set,) = module.update_driver_history(EMPTY, state(loaded="570.172.08"), params())["sets"]
    assert saved_set == {
        "recorded_at": "2026-11-22T09:05:07Z", "reason": "upgrade to 580.95.05", "packages": OLD,
        "held": ["nvidia-open"], "kernel": "6.8", "loaded": "570.172.08",
    }  # fmt: skip


def test_upgrade_rollback_and_next_upgrade_each_record_their_set():
    """The newest remembered set is what a rollback returns to: each replaced set is added, the same one never twice."""
    first, second = {"nvidia-open": "1"}, {"nvidia-open": "2"}
    to = {version: [{"name": "nvidia-open", "version": version}] for version in ("1", "2", "3")}
    record = module.update_driver_history(EMPTY, state(first), params(to["2"]))
    record = module.update_driver_history(record, state(second), params(to["1"], rolled_back=True))
    assert [set_["packages"] for set_ in record["sets"]] == [first, second]
    assert record["rolled_back_from"] == second
    third_record = module.update_driver_history(record, state(first), params(to["1"]))
    assert third_record == record  # nothing is replaced: what was rolled back from stays known
    record = module.update_driver_history(record, state(first), params(to["3"]))
    assert [set_["packages"] for set_ in record["sets"]] == [first, second, first]
    assert record["rolled_back_from"] == {}


def test_missing_package_of_the_target_set_counts_as_a_change():
    target_packages = [
        {"name": "nvidia-open", "version": "570.172.08-1"},
        {"name": "nvidia-persistenced", "version": None},
    ]
    assert [
        set_["packages"]
        for set_ in module.update_driver_history(EMPTY, state(), params(target_packages))["sets"]
    ] == [OLD]
