"""Recipes, progress of a build, and what a machine must have."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

from gpufleet.errors import EnvironmentFault
from gpufleet.rehearsal.rack import emulation, images, requirements

RECIPE = images.ImageRecipe("bookworm", "amd64")


def test_image_name_contains_suite_architecture_and_hash():
    assert re.fullmatch(r"bookworm-amd64-[0-9a-f]{12}", RECIPE.image_name)
    assert RECIPE.image_name == images.ImageRecipe("bookworm", "amd64").image_name


@pytest.mark.parametrize(
    "change", [{"arch": "arm64"}, {"packages": ("systemd",)}, {"masked": ()}, {"version": 99}]
)
def test_any_change_of_the_recipe_changes_the_image_name(change):
    assert replace(RECIPE, **change).image_name != RECIPE.image_name


def test_release_that_debootstrap_cannot_build_is_refused(monkeypatch, tmp_path):
    monkeypatch.setattr(images, "SCRIPTS", tmp_path)
    with pytest.raises(EnvironmentFault, match="debootstrap cannot build trixie"):
        images.ensure_base_image("amd64", print, "trixie")


def test_machine_of_another_distribution_builds_debian_from_its_archive(monkeypatch, tmp_path):
    (tmp_path / "trixie").touch()
    monkeypatch.setattr(images, "SCRIPTS", tmp_path)
    monkeypatch.setattr(images.apt_sources, "read_suite_apt_sources", lambda _suite: [])
    assert images._choose_recipe("amd64", "trixie") == (images.ImageRecipe("trixie", "amd64"), None)


def test_images_of_older_recipes_are_removed_when_unused_for_weeks(tmp_path):
    current = tmp_path / RECIPE.image_name
    old, recent, other = (
        tmp_path / name for name in ("bookworm-amd64-0", "bookworm-amd64-1", "trixie-amd64-0")
    )
    for image in (current, old, recent, other):
        image.mkdir()
    for image in (old, other):
        os.utime(image, (0, 0))
    images._remove_expired_images(RECIPE, current)
    assert sorted(tmp_path.iterdir()) == sorted([current, recent, other])


def test_hosts_have_the_complete_python_package():
    assert "python3" in RECIPE.packages
    assert "python3-minimal" not in RECIPE.packages


def test_image_build_progress_counts_packages():
    lines = [f"I: {verb} package{n} 1.0\n" for verb in ("Retrieving", "Unpacking") for n in range(60)]
    messages = []
    last = images._report_progress(
        SimpleNamespace(stdout=[*lines, "E: Couldn't work out\n"]), messages.append
    )
    assert messages[0] == "base image: retrieving packages, 30"
    assert messages[-1] == "base image: unpacking packages, 60 of 60"
    assert last == "E: Couldn't work out"


def test_host_specific_files_are_removed(tmp_path):
    for name in (
        "etc/ssh/ssh_host_rsa_key",
        "etc/machine-id",
        "var/cache/apt/archives/a.deb",
        "var/log/journal/x/y",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    (tmp_path / "etc/systemd/system").mkdir(parents=True)
    (tmp_path / "var/lib/dbus").mkdir(parents=True)
    images._remove_host_specific_files(RECIPE, tmp_path)
    remaining = {
        str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file() and not p.is_symlink()
    }
    assert remaining == {"etc/machine-id"}
    assert (tmp_path / "etc/machine-id").read_text() == ""
    assert str((tmp_path / "etc/systemd/system/apt-daily.timer").readlink()) == "/dev/null"


@pytest.mark.parametrize(
    ("platform", "euid", "present", "reason"),
    [
        ("darwin", 0, True, "hosts need Linux namespaces, and this is darwin"),
        ("linux", 1000, True, "hosts need root: namespaces, mounts and systemd-nspawn"),
        ("linux", 0, False, "missing packages: debootstrap dpkg iproute2 systemd-container util-linux"),
        ("linux", 0, True, None),
    ],
)
def test_reasons_why_hosts_cannot_be_booted_are_reported(monkeypatch, platform, euid, present, reason):
    monkeypatch.setattr(requirements.sys, "platform", platform)
    monkeypatch.setattr(requirements.os, "geteuid", lambda: euid)
    monkeypatch.setattr(requirements, "_find_program", lambda _program: "/bin/x" if present else None)
    assert requirements.find_missing_requirement() == reason


def test_arm64_hosts_need_additional_packages(monkeypatch):
    monkeypatch.setattr(
        requirements, "_find_program", lambda program: None if "qemu" in program else "/bin/x"
    )
    assert requirements.list_missing_debian_packages() == []
    assert requirements.list_missing_debian_packages(include_arm64=True) == ["qemu-user-static"]


@pytest.mark.parametrize(
    ("entry", "accepted"),
    [
        ("enabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: OCF\n", True),
        ("enabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: OC\n", False),
        ("disabled\ninterpreter /usr/bin/qemu-aarch64-static\nflags: F\n", False),
        (None, False),
    ],
)
def test_binfmt_emulator_must_be_opened_by_the_kernel_at_registration(monkeypatch, tmp_path, entry, accepted):
    monkeypatch.setattr(emulation, "BINFMT", tmp_path)
    if entry is not None:
        (tmp_path / "qemu-aarch64").write_text(entry)
    assert emulation.is_binfmt_handler_enabled("qemu-aarch64") is accepted


def test_architecture_without_emulator_is_refused():
    with pytest.raises(EnvironmentFault, match="hosts of architecture riscv64 can't be booted"):
        emulation.ensure_cpu_emulation("riscv64")
