"""Test the comparison of drivers between hosts and within a host."""

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
    return consistency.HostDriverState(name, group, cards, {**WELL, **changed})


def codes(*hosts):
    return {
        (finding.host, finding.code, finding.kind)
        for finding in consistency.check_driver_consistency(hosts).findings
    }


def test_identical_hosts_have_no_finding():
    report = consistency.check_driver_consistency([host("a"), host("b")])
    assert not report.findings
    assert not report.has_skew_finding
    assert report.as_json()["agree"] is True


def test_driver_of_an_image_needs_no_holds():
    assert codes(host("a", held=[], managed_by="elsewhere")) == set()


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
def test_inconsistent_host_is_reported(changed, code, kind):
    assert ("a", code, kind) in codes(host("a", **changed))


@pytest.mark.parametrize(
    ("unit", "name"), [("nvidia-imex", "IMEX"), ("nvidia-fabricmanager", "fabric manager")]
)
def test_service_of_the_fabric_is_called_by_its_name(unit, name):
    state = {"version": "580.126.20", "unit": unit, "active": True}
    (finding,) = consistency.check_driver_consistency([host("a", fabric_manager=state)]).findings
    assert finding.message == f"{name} 580.126.20, driver 580.95.05: they must be the same"
    state = {"version": "580.95.05", "unit": unit, "active": False}
    (finding,) = consistency.check_driver_consistency([host("a", fabric_manager=state)]).findings
    assert (finding.message, finding.remedy) == (f"{name} is not running", f"systemctl status {unit}")


def test_fabric_manager_that_is_not_needed_is_not_reported_as_missing():
    assert not codes(host("a", fabric_manager=None))


def test_deviating_host_of_a_group_is_reported_with_the_common_version():
    old = {
        "installed": "570.172.08",
        "loaded": "570.172.08",
        "user_space": "570.172.08",
        "fabric_manager": None,
    }
    report = consistency.check_driver_consistency(
        [host("a"), host("b"), host("c", **old), host("d", group="serve", **old)]
    )
    assert [(finding.host, finding.code) for finding in report.findings] == [("c", "driver_differs")]
    assert report.findings[0].message == "driver 570.172.08; 2 of 3 in train have 580.95.05"


def test_newest_version_is_expected_if_equally_many_hosts_differ():
    older = {**dict.fromkeys(("installed", "loaded", "user_space"), "580.9.1"), "fabric_manager": None}
    assert codes(host("a"), host("b", **older)) == {("b", "driver_differs", "skew")}


def test_different_cuda_toolkits_within_a_group_are_reported():
    assert codes(host("a"), host("b"), host("c", cuda=["12.4"])) == {("c", "cuda_differs", "skew")}


def test_hosts_without_cards_and_drivers_are_omitted():
    bare = consistency.HostDriverState("blade", "ci", cards=False, state=None)
    assert consistency.check_driver_consistency([bare]).hosts == ()


def test_host_with_cards_but_without_facts_is_reported():
    report = consistency.check_driver_consistency(
        [consistency.HostDriverState("a", "train", cards=True, state=None)]
    )
    assert [(finding.code, finding.kind) for finding in report.findings] == [("not_read", "note")]
    assert not report.has_skew_finding


def test_table_lists_every_host_and_every_finding():
    lines = consistency.format_consistency_report(
        consistency.check_driver_consistency([host("a"), host("b", loaded=None, held=[])])
    )
    assert lines[0].split()[:3] == ["NODE", "GROUP", "INSTALLED"]
    assert lines[1].endswith("agrees")
    assert "no module is loaded" in "\n".join(lines)
    assert lines[-1].strip().startswith("skew: ")
    assert len(lines) == 4


def test_findings_are_sorted_by_kind_host_and_code():
    stopped = {"version": "580.95.05", "active": False}
    hosts = [
        host("b", loaded=None, container="lxc"), host("z", held=[], fabric_manager=stopped), host("a", unsound=["x"]),
    ]  # fmt: skip
    assert [
        (finding.kind, finding.host, finding.code)
        for finding in consistency.check_driver_consistency(hosts).findings
    ] == [
        ("skew", "a", "half_installed"),
        ("skew", "z", "fabric_manager_stopped"),
        ("skew", "z", "holds_missing"),
        ("note", "b", "not_loaded"),
    ]


@pytest.mark.parametrize(
    ("changed", "message", "remedy"),
    [
        ({"unsound": ["a", "b"]}, "packages are only partly installed: a, b", "dpkg --configure -a"),
        ({"held": []}, "no driver package is held", "run the play `drivers` on the host"),
        ({"holds_wanted": ["z", "nvidia-open", "c"]}, "packages are not held: c, z",
         "run the play `drivers` on the host"),
        ({"loaded": None, "built": None}, "no module of 580.95.05 is built for kernel 6.8.0-60-generic",
         "dkms status; the kernel's headers are there"),
        ({"loaded": None, "built": None, "headers": False},
         "no module of 580.95.05 is built for kernel 6.8.0-60-generic",
         "dkms status; the kernel's headers are missing"),
        ({"fabric_manager": None, "fabric_manager_wanted": True},
         "the plan has a fabric manager or IMEX, but the host has neither",
         "run the play `drivers` on the host"),
    ],
)  # fmt: skip
def test_finding_names_problem_and_remedy(changed, message, remedy):
    (findings,) = consistency.check_driver_consistency([host("a", **changed)]).findings
    assert (findings.message, findings.remedy) == (message, remedy)


def test_stopped_fabric_manager_in_a_container_is_only_a_note():
    stopped = {"version": "580.95.05", "active": False}
    assert codes(host("a", fabric_manager=stopped, container="lxc", loaded="580.95.05")) == {
        ("a", "fabric_manager_stopped", "note")
    }


def test_host_with_a_driver_but_no_cards_has_no_finding():
    report = consistency.check_driver_consistency([host("a", cards=False)])
    assert [host.name for host in report.hosts] == ["a"]
    assert not report.findings


def test_json_report_is_complete():
    report = consistency.check_driver_consistency(
        [host("b", held=[]), host("a", group="serve", cuda=None, fabric_manager=None)]
    )
    assert report.as_json() == {
        "agree": False,
        "hosts": [
            {"name": "a", "group": "serve", "read": True, "installed": "580.95.05", "loaded": "580.95.05",
             "user_space": "580.95.05", "fabric_manager": None, "cuda": [], "held": 1},
            {"name": "b", "group": "train", "read": True, "installed": "580.95.05", "loaded": "580.95.05",
             "user_space": "580.95.05", "fabric_manager": "580.95.05", "cuda": ["12.8"], "held": 0},
        ],
        "findings": [
            {"host": "b", "code": "holds_missing", "kind": "skew", "remedy": "run the play `drivers` on the host",
             "message": "no driver package is held"},
        ],
    }  # fmt: skip


def test_table_is_aligned_and_prints_a_second_finding_below_the_first():
    report = consistency.check_driver_consistency(
        [host("a", held=[], unsound=["x"]), host("bb", cuda=["12.8", "13.0"])]
    )
    version = "580.95.05  "
    assert consistency.format_consistency_report(report) == [
        "NODE  GROUP  INSTALLED  LOADED     LIBRARIES  FABRIC     CUDA        HELD  FINDING",
        f"a     train  {version * 4}12.8        -     skew: CUDA 12.8; 1 of 2 in train have 12.8, 13.0",
        f"{'':75}skew: packages are only partly installed: x",
        f"{'':75}skew: no driver package is held",
        f"bb    train  {version * 4}12.8, 13.0  1     agrees",
    ]
