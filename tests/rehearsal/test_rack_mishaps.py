"""Faults with an amount, and what those inside a host lay on its disk."""

from __future__ import annotations

import subprocess

import pytest

from gpufleet.errors import InputError
from gpufleet.rehearsal.rack import faults, hosts, mishaps


@pytest.mark.parametrize(
    ("given", "kind", "found"),
    [
        (["apt_locked"], "apt_locked", 60),
        (["apt_locked=20", "dies"], "apt_locked", 20),
        (["dies=7"], "dies", 7),
        (["disk_full"], "disk_small", None),
        ([], "dies", None),
    ],
)
def test_how_much_of_a_fault(given, kind, found):
    assert faults.amount(frozenset(given), kind) == found


@pytest.mark.parametrize(
    "wrong",
    ["dies=", "dies=0", "dies=many", "dies=-1", "disk_full=3", "apt_locked=999999", "die", "=4", "dies=4=5"],
)
def test_a_wrong_amount_is_refused_with_its_line(wrong):
    with pytest.raises(InputError, match=r"unknown fault") as refused:
        faults.parse_faults(f"faults:\n  r/1: '{wrong}'\n", "f.yaml")
    assert refused.value.where == "f.yaml:2"


def test_amounts_are_read_from_a_file():
    read = faults.parse_faults("faults: {r/1: [dies=2, apt_locked], r/2: disk_small=30}", "f")
    assert read.of("r/1") == {"dies=2", "apt_locked"}
    assert read.of("r/2") == {"disk_small=30"}


@pytest.mark.parametrize(
    ("given", "disk"),
    [([], (0, 0)), (["disk_full"], (48, 0)), (["disk_small"], (356, 100)), (["disk_small=30"], (286, 30))],
)
def test_size_of_a_small_disk(given, disk):
    assert hosts.small_disk(frozenset(given)) == disk


def test_a_sound_host_has_nothing_laid():
    assert (mishaps.files([]), mishaps.links([])) == ({}, {})


def test_everything_laid_is_known_and_taken_away_again():
    given = ["apt_locked", "dies"]
    assert {*mishaps.files(given), *mishaps.links(given)} == set(mishaps.ALL)


def test_the_lock_is_held_by_a_valid_program():
    text, mode = mishaps.files(["apt_locked=5"])[mishaps.LOCK_SCRIPT]
    compile(text, "hold", "exec")
    assert "time.sleep(5)" in text
    assert mode == 0o755


@pytest.mark.parametrize(("sessions", "ends"), [(2, ["", "end"]), (1, ["end", ""])])
def test_the_nth_session_ends_the_host_once(tmp_path, sessions, ends):
    text, _ = mishaps.files([f"dies={sessions}"])[mishaps.SSH_RC]
    text = text.replace("/run/", f"{tmp_path}/").replace("/var/lib/", f"{tmp_path}/lib/")
    text = text.replace("systemctl --force --force poweroff >/dev/null 2>&1", "echo end").replace(
        '"$(id -u)"', "0"
    )
    assert "exec sleep 600" in text  # so that nothing is done any more
    text = text.replace("exec sleep 600", "exit")
    done = [subprocess.run(["sh", "-c", text], capture_output=True, text=True, check=True) for _ in ends]
    assert [one.stdout.strip() for one in done] == ends
