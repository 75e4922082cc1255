"""The lab itself: plays run for real, packages come through the gateway, and it tells what happened."""

from __future__ import annotations

PLAYS = ("lab",)


def test_a_play_converges_and_then_changes_nothing(converged):
    runs = converged("lab")
    runs.assert_idempotent()
    assert runs.check.changed("base01") == runs.first.changed("base01") == 2


def test_packages_come_from_debian_and_from_the_stand_ins(converged, lab):
    converged("lab")
    host = lab.host("base01")
    assert host.check_output("hello") == "Hello, world!"
    assert host.package("rehearsal-example").version == "2.0-1"
    assert "STAND-IN" in host.check_output("apt-cache show rehearsal-example")
