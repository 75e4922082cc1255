"""Test the role blade on a booted blade: identity, agent and bootloader."""

from __future__ import annotations

PLAYS = ("blade",)
HOST = "blade01"
CONFIG = "/boot/firmware/config.txt"


def task_output(run, task):
    return next(result.output for result in run.results_of(HOST) if result.task.endswith(task))


def test_blade_converges_and_the_second_run_changes_nothing(converge_play):
    runs = converge_play("blade")
    runs.assert_idempotent()
    assert runs.first.changed(HOST) == 2
    assert runs.check.changed(HOST) == 2


def test_led_is_on_and_findings_have_reasons(converge_play, lab):
    seen = task_output(converge_play("blade").first, "Identify the blade")
    assert seen["facts"]["throttled"] == "0x0"
    assert (seen["facts"]["supply"], seen["facts"]["supply_watts"]) == ("poe+", 30)
    assert seen["facts"]["nvme"][0]["width"] == 1
    assert [reason["code"] for reason in seen["reasons"]] == ["boot_unknown"]
    assert lab.host(HOST).check_output("bladectl get identify") == "Active"


def test_fan_agent_runs_with_the_fan_curve(converge_play, lab):
    converge_play("blade")
    host = lab.host(HOST)
    assert host.service("compute-blade-agent").is_running
    text = host.file("/etc/compute-blade-agent/config.yaml").content_string
    assert text.index("temperature: 40") < text.index("temperature: 60")
    assert "critical_temperature_threshold: 70" in text


def test_pending_bootloader_settings_are_reported(converge_play, lab):
    runs = converge_play("blade")
    assert task_output(runs.first, "Write the bootloader's settings")["differing"]["BOOT_ORDER"] == [
        "0xf25641",
        "0xf416",
    ]
    assert task_output(runs.second, "Write the bootloader's settings")["reboot_needed"] is True
    pending = lab.host(HOST).file("/etc/gpufleet-rehearsal/boot.conf.pending").content_string
    assert "BOOT_ORDER=0xf416\n" in pending
    assert "WAKE_ON_GPIO=1\n" in pending


def test_another_board_is_refused_before_its_led_is_switched(converge_play, lab):
    converge_play("blade")
    host = lab.host(HOST)
    host.check_output("bladectl unset identify")
    result = lab.run(PLAY.replace("EXTRA", "blade_serial: 1000000012345678, blade_identify: lit"))
    assert "another board answers here" in result.failure_text(HOST)
    assert host.check_output("bladectl get identify") == "Off"


def test_bootloader_of_a_compute_module_is_changed_only_if_allowed(converge_play, lab):
    converge_play("blade")
    result = lab.run(PLAY.replace("EXTRA", "blade_eeprom: {BOOT_ORDER: '0xf2'}"))
    output = task_output(result, "Write the bootloader's settings")
    assert output["changed"] is False
    assert "BOOT_ORDER is 0xf25641, expected 0xf2; on a Compute Module" in output["not_applied"]["eeprom"]


PLAY = """\
- name: Blade again
  hosts: blade01
  gather_facts: false
  tasks:
    - name: Blade
      ansible.builtin.import_role:
        name: gpufleet.fleet.blade
      vars: {EXTRA}
"""


def test_firmware_settings_are_one_block_and_request_a_restart(converge_play, lab):
    converge_play("blade")
    host = lab.host(HOST)
    image = "[cm4]\notg_mode=1\n"
    host.check_output(f"mkdir -p /boot/firmware; rm -f /run/reboot-required; printf '{image}' > {CONFIG}")
    play = PLAY.replace("EXTRA", "blade_poe_fan_steps: [{temperature: 60, hysteresis: 5}]").replace(
        "blade\n", "blade\n        tasks_from: config_txt\n", 1
    )
    first, second = lab.run(play), lab.run(play)
    assert (first.failure_text(HOST), second.changed(HOST)) == (None, 0)
    text = host.file(CONFIG).content_string
    assert text.splitlines()[1:4] == [
        "[all]",
        "dtparam=poe_fan_temp0=60000",
        "dtparam=poe_fan_temp0_hyst=5000",
    ]
    assert text.endswith(image)
    assert host.file("/run/reboot-required").exists
