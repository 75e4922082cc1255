"""Test the lab: it runs plays, provides packages and returns the outcome of tasks."""

from __future__ import annotations

PLAYS = ("lab",)


def test_play_converges_and_the_second_run_changes_nothing(converge_play):
    runs = converge_play("lab")
    runs.assert_idempotent()
    assert runs.check.changed("base01") == runs.first.changed("base01") == 1


def test_packages_come_from_debian_and_from_the_fake_repository(converge_play, lab):
    converge_play("lab")
    host = lab.host("base01")
    assert host.check_output("hello") == "Hello, world!"
    assert host.package("rehearsal-example").version == "2.0-1"
    assert "FAKE" in host.check_output("apt-cache show rehearsal-example")


def test_stopped_host_is_booted_again_and_a_second_run_finishes(make_lab):
    lab = make_lab("mortal", reads_package_lists=False)
    lab.up({"one": {"faults": ["dies=1"]}, "two": {}})
    play = """
- name: Work on both
  hosts: all
  gather_facts: false
  tasks:
    - name: Say so
      ansible.builtin.copy: {dest: /etc/said, content: "so\\n", mode: "0644"}
"""
    first = lab.run(play)
    assert first.failure_text("one").startswith("Say so: ")
    assert first.results_of("one")[-1].status == "unreachable"
    assert first.failure_text("two") is None
    lab.up(lab.hosts)
    second_run = lab.run(play)
    assert (second_run.rc, second_run.changed("one"), second_run.changed("two")) == (0, 1, 0)
    assert lab.host("one").file("/etc/said").content_string == "so\n"
