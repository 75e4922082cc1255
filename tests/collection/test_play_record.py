"""Test the callback plugin ``play_record`` where it is not about events: those are in tests/remote/test_stops.py."""

from __future__ import annotations

WARNING = """#!/usr/bin/python3
import json
print(json.dumps({"changed": False, "warnings": ["before \\x1b[K after \\x1b[1;31mred"]}))
"""


def test_control_sequences_of_a_host_are_printed_as_text(run_play, tmp_path):
    """Between such sequences, ansible-runner finds the events of a run."""
    (tmp_path / "library").mkdir()
    (tmp_path / "library" / "warn.py").write_text(WARNING)
    settings = {
        "ANSIBLE_CALLBACKS_ENABLED": "gpufleet.fleet.play_record",
        "ANSIBLE_LIBRARY": str(tmp_path / "library"),
    }
    result = run_play({"warn": {}}, **settings)
    assert result.returncode == 0, result.stdout + result.stderr
    printed = result.stdout + result.stderr
    assert "before ^[[K after \x1b[1;31mred" in printed
    assert "\x1b[K" not in printed


def test_plugin_adds_nothing_without_ansible_runner(run_play):
    result = run_play({"ansible.builtin.ping": {}}, ANSIBLE_CALLBACKS_ENABLED="gpufleet.fleet.play_record")
    assert result.returncode == 0, result.stderr
    assert "play_record" not in result.stdout + result.stderr
