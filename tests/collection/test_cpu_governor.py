"""The CPU governor: through a unit or a profile of tuned, and hosts that have none."""

from __future__ import annotations

from ansible_collections.gpufleet.fleet.plugins.filter.cpu_governor import (
    cpu_governor_not_applied,
    cpu_governor_problem,
    cpu_governor_resources,
)

PROBE = {"available": "powersave performance", "current": "powersave ", "profiles": "/etc/tuned", "tuned": ""}
TUNED = PROBE | {"tuned": "yes", "profile": "virtual-guest"}
UNIT = "/etc/systemd/system/gpufleet-cpu-governor.service"


def resources(probe, governor="performance"):
    return cpu_governor_resources(probe, governor=governor, folder="/sys/f")


def test_unit_starts_after_the_pi_s_own_script_and_only_where_the_file_can_be_written():
    planned = resources(PROBE)
    text = planned["files"][0]["content"]
    assert "After=raspi-config.service\nConditionPathIsReadWrite=/sys/f/policy0/scaling_governor\n" in text
    assert "do echo performance >$file; done" in text
    assert planned["command"] == ["systemctl", "restart", "gpufleet-cpu-governor.service"]
    assert resources(PROBE | {"current": "performance "})["command"] == []


def test_tuned_gets_a_profile_that_includes_the_one_before():
    planned = resources(TUNED)
    assert planned["files"][-1]["path"] == "/etc/tuned/gpufleet/tuned.conf"
    assert planned["files"][-1]["content"].endswith(
        "[main]\ninclude=virtual-guest\n[cpu]\ngovernor=performance\n"
    )
    assert planned["command"] == ["tuned-adm", "profile", "gpufleet"]
    again = TUNED | {"profile": "gpufleet", "include": "virtual-guest", "current": "performance "}
    assert resources(again)["files"] == planned["files"]
    assert resources(again)["command"] == []


def test_default_returns_to_what_was_before():
    assert resources(PROBE, "default")["files"] == [{"path": UNIT, "state": "absent"}]
    planned = resources(TUNED | {"profile": "gpufleet", "include": "balanced"}, "default")
    assert planned["files"] == [{"path": "/etc/tuned/gpufleet/tuned.conf", "state": "absent"}]
    assert planned["command"] == ["tuned-adm", "profile", "balanced"]
    assert resources(TUNED, "default")["command"] == []


def test_host_without_cpu_frequencies_is_reported_and_not_failed():
    probe = PROBE | {"available": ""}
    assert cpu_governor_problem(probe, governor="performance") == ""
    assert resources(probe) == {"files": [], "units": [], "command": []}
    reason = cpu_governor_not_applied(probe, governor="performance", applied={})["cpu_governor"]
    assert reason.startswith("the host cannot set CPU frequencies: a virtual machine")
    assert cpu_governor_not_applied(probe, governor="", applied={}) == {}


def test_governor_that_is_not_offered_is_a_problem():
    problem = cpu_governor_problem(PROBE, governor="schedutil")
    assert problem.startswith(
        "cpu_governor_name is schedutil: this host's CPU driver offers powersave, performance;"
    )
    assert cpu_governor_problem(PROBE, governor="default") == ""
