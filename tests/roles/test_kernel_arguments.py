"""Test the kernel's command line on a booted host with a Raspberry Pi's boot folder."""

from __future__ import annotations

import json

PLAYS = ("kernel_arguments",)


def test_arguments_converge_and_the_second_run_changes_nothing(converge_play):
    converge_play("kernel_arguments").assert_idempotent()


def test_line_has_the_arguments_and_a_restart_is_requested(converge_play, lab):
    converge_play("kernel_arguments")
    host = lab.host("base01")
    line = host.file("/boot/firmware/cmdline.txt").content_string
    assert (
        line
        == "console=tty1 root=PARTUUID=4c4e106f-02 rootwait cgroup_enable=memory hugepagesz=1G hugepages=2\n"
    )
    assert host.file("/boot/firmware/cmdline.txt.before-gpufleet").contains("quiet")
    record = json.loads(host.file("/var/lib/gpufleet/kernel_arguments.json").content_string)
    assert record == ["cgroup_enable=memory", "hugepagesz=1G", "hugepages=2"]
    assert host.file("/run/reboot-required").exists


def test_what_waits_for_the_restart_is_reported(converge_play):
    runs = converge_play("kernel_arguments")
    [report] = [
        r.output["msg"]
        for r in runs.second.results_of("base01")
        if r.task == "What kernel_arguments reported"
    ]
    assert set(report) >= {"cgroup_enable=memory", "hugepages=2"}
    assert report["cgroup_enable=memory"] == "in the boot loader; in force after a restart"


def test_governor_is_set_on_every_policy_and_again_at_each_boot(converge_play, lab):
    converge_play("kernel_arguments")
    host = lab.host("base01")
    folder = "/etc/gpufleet-rehearsal/policy"
    assert (
        host.check_output(f"cat {folder}0/scaling_governor {folder}4/scaling_governor").split()
        == ["performance"] * 2
    )
    assert host.service("gpufleet-cpu-governor").is_enabled
    [report] = [
        r.output["msg"]
        for r in converge_play("kernel_arguments").second.results_of("base01")
        if r.task == "What cpu_governor reported"
    ]
    assert report == {}
    host.check_output(f"echo ondemand >{folder}4/scaling_governor; systemctl restart gpufleet-cpu-governor")
    assert host.check_output(f"cat {folder}4/scaling_governor") == "performance"
