"""Drivers of a fleet against each other and against themselves."""

from __future__ import annotations

import pytest

from gpufleet.drivers import consistency

WELL = {
    "installed": "580.95.05",
    "loaded": "580.95.05",
    "user_space": "580.95.05",
    "built": "580.95.05",
    "kernel": "6.8.0-60-generic",
    "headers": True,
    "container": None,
    "held": ["nvidia-open"],
    "cuda": ["12.8"],
    "fabric_manager": {"version": "580.95.05", "enabled": True, "active": True},
    "unsound": [],
}


def host(name, group="train", cards=True, **changed):
    return consistency.Host(name, group, cards, {**WELL, **changed})


def codes(*hosts):
    return {(found.host, found.code, found.kind) for found in consistency.check(hosts).findings}


def test_hosts_that_agree():
    report = consistency.check([host("a"), host("b")])
    assert not report.findings
    assert not report.skewed
    assert report.as_json()["agree"] is True


@pytest.mark.parametrize(
    ("changed", "code", "kind"),
    [
        ({"loaded": "570.172.08"}, "loaded_differs", "skew"),
        ({"loaded": None}, "not_loaded", "skew"),
        ({"loaded": None, "container": "systemd-nspawn"}, "not_loaded", "note"),
        ({"loaded": None, "built": None}, "module_not_built", "skew"),
        ({"user_space": "580.126.20"}, "user_space_differs", "skew"),
        ({"held": []}, "holds_missing", "skew"),
        ({"holds_wanted": ["nvidia-open", "nvidia-smi"]}, "holds_missing", "skew"),
        ({"unsound": ["nvidia-open"]}, "half_installed", "skew"),
        ({"fabric_manager": {"version": "580.126.20", "active": True}}, "fabric_manager_skew", "skew"),
        ({"fabric_manager": {"version": "580.95.05", "active": False}}, "fabric_manager_stopped", "skew"),
        ({"fabric_manager": None, "fabric_manager_wanted": True}, "no_fabric_manager", "skew"),
        ({"installed": None, "loaded": None, "user_space": None}, "no_driver", "skew"),
    ],
)
def test_a_host_that_does_not_agree_with_itself(changed, code, kind):
    assert ("a", code, kind) in codes(host("a", **changed))


def test_a_fabric_manager_that_is_not_wanted_is_not_missed():
    assert not codes(host("a", fabric_manager=None))


def test_the_odd_one_of_a_group_is_named_with_what_the_others_have():
    old = {
        "installed": "570.172.08",
        "loaded": "570.172.08",
        "user_space": "570.172.08",
        "fabric_manager": None,
    }
    report = consistency.check([host("a"), host("b"), host("c", **old), host("d", group="serve", **old)])
    assert [(one.host, one.code) for one in report.findings] == [("c", "driver_differs")]
    assert report.findings[0].message == "driver 570.172.08; 2 of 3 in train have 580.95.05"


def test_among_equals_the_newest_is_right():
    older = {**dict.fromkeys(("installed", "loaded", "user_space"), "580.9.1"), "fabric_manager": None}
    assert codes(host("a"), host("b", **older)) == {("b", "driver_differs", "skew")}


def test_other_cuda_toolkits_within_a_group():
    assert codes(host("a"), host("b"), host("c", cuda=["12.4"])) == {("c", "cuda_differs", "skew")}


def test_hosts_without_cards_and_drivers_do_not_take_part():
    bare = consistency.Host("blade", "ci", cards=False, state=None)
    assert consistency.check([bare]).hosts == ()


def test_a_host_with_cards_that_was_never_read_is_said_to_be_so():
    report = consistency.check([consistency.Host("a", "train", cards=True, state=None)])
    assert [(one.code, one.kind) for one in report.findings] == [("not_read", "note")]
    assert not report.skewed


def test_the_table_has_every_host_and_every_finding():
    lines = consistency.table(consistency.check([host("a"), host("b", loaded=None, held=[])]))
    assert lines[0].split()[:3] == ["NODE", "GROUP", "INSTALLED"]
    assert lines[1].endswith("agrees")
    assert "no module is loaded" in "\n".join(lines)
    assert lines[-1].strip().startswith("skew: ")
    assert len(lines) == 4
