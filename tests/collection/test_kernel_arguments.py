"""Kernel arguments: edited lines, GRUB's own shell, and boot loaders that fail."""

from __future__ import annotations

import json
import subprocess

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.gpufleet.fleet.plugins.filter.kernel_arguments import (
    add_gigantic_page_arguments,
    kernel_arguments_not_applied,
)
from ansible_collections.gpufleet.fleet.plugins.module_utils import boot, grub, kernels
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError
from ansible_collections.gpufleet.fleet.plugins.modules import kernel_arguments

# The line of Raspberry Pi OS 12's image, with its PARTUUID shortened.
PI = "console=serial0,115200 console=tty1 root=PARTUUID=4c4e106f-02 rootfstype=ext4 fsck.repair=yes rootwait quiet"


@pytest.mark.parametrize(
    ("present", "absent", "expected"),
    [
        (["cgroup_enable=memory"], [], f"{PI} cgroup_enable=memory"),
        (["quiet"], [], PI),
        ([], ["quiet"], PI.removesuffix(" quiet")),
        ([], ["console"], PI.split(" ", 2)[2]),
        ([], ["console=tty1"], PI.replace(" console=tty1", "")),
        (["a", "a"], [], f"{PI} a"),
        (["rootwait=5"], ["rootwait"], PI.replace(" rootwait", "") + " rootwait=5"),
    ],
)
def test_line_keeps_all_other_arguments(present, absent, expected):
    assert boot.edit_command_line(PI, present, absent) == expected
    assert boot.edit_command_line(expected, present, absent) == expected, "a second run changes nothing"


@pytest.mark.parametrize(
    "argument", ["a b", "a\nb", "a=$(reboot)", "a=`id`", 'a="b"', "a=b\\c", "", "=1", "a='b'", "a;b"]
)
def test_arguments_that_a_shell_could_read_otherwise_are_refused(argument):
    assert boot.find_invalid_arguments([argument]) == [argument]


@pytest.mark.parametrize(
    "argument", ["quiet", "iommu=pt", "nvme.io_timeout=4294967295", "isolcpus=1-3,5", "module_blacklist=a,b"]
)
def test_arguments_of_the_kernel_s_documentation_are_accepted(argument):
    assert boot.find_invalid_arguments([argument]) == []


def test_grub_settings_do_in_a_real_shell_what_they_say(tmp_path):
    settings = tmp_path / "60-gpufleet.cfg"
    settings.write_text(boot.format_grub_settings(["iommu=pt", "a=/dev/b"], ["quiet", "console=tty1", "x/y"]))
    script = 'GRUB_CMDLINE_LINUX="console=tty1 console=ttyS0"; GRUB_CMDLINE_LINUX_DEFAULT="quiet splash"; '
    script += f". {settings}; echo $GRUB_CMDLINE_LINUX; echo $GRUB_CMDLINE_LINUX_DEFAULT"
    shown = subprocess.run(["sh", "-euc", script], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines() == ["console=ttyS0 iommu=pt a=/dev/b", "splash"]


def test_nothing_requested_is_no_file():
    assert boot.format_grub_settings([], []) == ""


def test_inactive_arguments_are_those_of_the_next_start():
    running = "root=/dev/sda1 quiet console=tty1"
    assert boot.list_inactive_arguments(running, ["iommu=pt", "quiet"], ["console", "splash"]) == [
        "iommu=pt",
        "without console",
    ]
    assert kernel_arguments_not_applied({"inactive": ["iommu=pt"], "not_applied": {}}) == {
        "iommu=pt": "in the boot loader; in force after a restart"
    }


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Give a host without a boot loader; the test adds one."""
    monkeypatch.setattr(kernel_arguments, "FIRMWARE", tmp_path / "cmdline.txt")
    monkeypatch.setattr(kernel_arguments, "GRUB_SETTINGS", tmp_path / "grub.d/61-gpufleet-arguments.cfg")
    monkeypatch.setattr(kernel_arguments, "OLD_GRUB_SETTINGS", tmp_path / "grub.d/60-gpufleet.cfg")
    monkeypatch.setattr(kernel_arguments, "RECORD", tmp_path / "record/kernel_arguments.json")
    monkeypatch.setattr(kernels, "FIRMWARE_FILES", (tmp_path / "cmdline.txt", tmp_path / "config.txt"))
    monkeypatch.setattr(kernels, "GRUB_MENU", tmp_path / "grub.cfg")
    running = tmp_path / "running"
    running.write_text("root=/dev/sda1\n")
    monkeypatch.setattr(kernel_arguments, "RUNNING", running)
    monkeypatch.setattr(
        kernel_arguments.tools, "build_program_environment", lambda **_: {"PATH": f"{tmp_path}/bin"}
    )
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()
    return tmp_path


def add_grub(host):
    """Give the host GRUB with a menu and programs that succeed."""
    (host / "grub.cfg").touch()
    add_program(host, "grub-reboot", "exit 0")
    add_program(host, "update-grub", f"cat {host}/grub.d/*.cfg > {host}/grub.cfg 2>/dev/null; exit 0")


def add_program(host, name, script):
    program = host / "bin" / name
    program.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    program.chmod(0o755)


def set_arguments(present=(), absent=(), *, check_mode=False):
    return kernel_arguments.set_kernel_arguments(list(present), list(absent), check_mode=check_mode)


def test_host_without_a_known_boot_loader_is_reported(host):
    result = set_arguments(["iommu=pt"])
    assert (result["changed"], result["loader"]) == (False, "none")
    assert "set the arguments in this host's boot loader" in result["not_applied"]["kernel_arguments"]


def test_firmware_line_is_replaced_with_a_copy_and_only_once(host):
    file = host / "cmdline.txt"
    file.write_text(PI + "\n")
    assert set_arguments(["cgroup_enable=memory"], check_mode=True)["changed"]
    assert file.read_text() == PI + "\n"
    result = set_arguments(["cgroup_enable=memory"])
    assert (result["changed"], result["inactive"]) == (True, ["cgroup_enable=memory"])
    assert file.read_text() == f"{PI} cgroup_enable=memory\n"
    assert (host / "cmdline.txt.before-gpufleet").read_text() == PI + "\n"
    assert not set_arguments(["cgroup_enable=memory"])["changed"]


@pytest.mark.parametrize("text", ["", "quiet\n", f"{PI}\nsecond line\n"])
def test_damaged_firmware_line_is_left_alone(host, text):
    (host / "cmdline.txt").write_text(text)
    with pytest.raises(HostError, match="is not one line with root=; nothing was changed"):
        set_arguments(["a"])
    assert (host / "cmdline.txt").read_text() == text


def test_root_cannot_be_removed(host):
    (host / "cmdline.txt").write_text(PI + "\n")
    with pytest.raises(HostError, match="would lose root="):
        set_arguments(absent=["root"])
    assert (host / "cmdline.txt").read_text() == PI + "\n"


def test_failed_update_grub_restores_the_settings(host):
    add_grub(host)
    assert set_arguments(["iommu=pt"])["changed"]
    settings = (host / "grub.d/61-gpufleet-arguments.cfg").read_text()
    add_program(host, "update-grub", "echo 'grub-probe: error: no root device' >&2; exit 1")
    with pytest.raises(HostError, match=r"settings are restored: grub-probe: error: no root device"):
        set_arguments(["iommu=off"])
    assert (host / "grub.d/61-gpufleet-arguments.cfg").read_text() == settings
    add_grub(host)
    assert set_arguments()["changed"], "nothing requested removes the file"
    assert not (host / "grub.d/61-gpufleet-arguments.cfg").exists()


def test_a_failed_menu_does_not_keep_a_new_file_of_settings(host):
    """Otherwise the next run would find the file as requested and never write the menu."""
    add_program(host, "update-grub", "exit 1")
    with pytest.raises(HostError, match="settings are restored"):
        grub.replace_grub_settings({host / "grub.d/60-gpufleet-kernel.cfg": "GRUB_DEFAULT=saved\n"})
    assert list((host / "grub.d").iterdir()) == []


def test_each_writer_of_grub_settings_has_a_file_of_its_own():
    """Two writers of one file undo each other in every run, and a request for a restart follows each time."""
    assert kernel_arguments.GRUB_SETTINGS != grub.DROP_IN


OLD_SETTINGS = 'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX hugepagesz=1G hugepages=4"\n'


def test_file_of_earlier_versions_moves_into_ours_with_one_menu(host):
    add_grub(host)
    (host / "grub.d").mkdir()
    old = host / "grub.d/60-gpufleet.cfg"
    old.write_text(OLD_SETTINGS)
    assert set_arguments(PAGES, check_mode=True)["changed"]
    assert old.exists()
    assert set_arguments(PAGES)["changed"]
    assert not old.exists()
    assert (host / "grub.cfg").read_text().count("hugepagesz=1G hugepages=4") == 1
    assert not set_arguments(PAGES)["changed"]


def test_file_of_earlier_versions_stays_if_the_menu_cannot_be_written(host):
    add_grub(host)
    add_program(host, "update-grub", "exit 1")
    (host / "grub.d").mkdir()
    (host / "grub.d/60-gpufleet.cfg").write_text(OLD_SETTINGS)
    with pytest.raises(HostError, match="settings are restored"):
        set_arguments()
    assert (host / "grub.d/60-gpufleet.cfg").read_text() == OLD_SETTINGS
    assert not (host / "grub.d/61-gpufleet-arguments.cfg").exists()


PAGES = ["hugepagesz=1G", "hugepages=4"]


@pytest.mark.parametrize("loader", ["firmware", "grub", "grubby"])
def test_another_number_of_pages_replaces_the_first_and_none_restores_the_line(host, loader):
    line_file = host / "cmdline.txt" if loader != "grub" else host / "grub.cfg"
    if loader == "grub":
        add_grub(host)
    elif loader == "grubby":
        line_file.write_text("root=/dev/sda1 quiet\n")
        # grubby(8) and the script of Fedora's package: same names are removed first, then all are added at the end.
        add_program(host, "grubby", GRUBBY.format(file=line_file))
        line_file.rename(host / "line")
        line_file = host / "line"
        add_program(host, "grubby", GRUBBY.format(file=line_file))
    else:
        line_file.write_text("root=/dev/sda1 quiet\n")
    original = "root=/dev/sda1 quiet" if loader != "grub" else ""
    for count in (4, 8):
        requested = add_gigantic_page_arguments(["quiet", "iommu=pt"], count=count)
        assert set_arguments(requested)["changed"]
        assert not set_arguments(requested)["changed"], "a second run changes nothing"
        text = line_file.read_text()
        assert text.count("hugepages=") == 1
        assert f"hugepagesz=1G hugepages={count}" in text
    assert set_arguments()["changed"]
    assert line_file.read_text().strip() == original, "quiet was there before, so it stays"
    assert not set_arguments()["changed"]
    assert not (host / "record/kernel_arguments.json").exists()


GRUBBY = """
if [ "$1" = --info=ALL ]; then echo "args=\\"$(cat {file})\\""; exit 0; fi
if [ "$1" = --default-kernel ]; then exit 0; fi
line=" $(cat {file}) "
for option in "$@"; do
  case $option in
    --remove-args=*) for a in ${{option#*=}}; do line=$(echo "$line" | sed "s# $a # #g"); done ;;
    --args=*) added=${{option#*=}}
      for a in $added; do line=$(echo "$line" | sed -E "s# ${{a%%=*}}(=[^ ]*)? # #g"); done ;;
  esac
done
echo $line $added > {file}
"""


def test_interrupted_run_forgets_no_argument(host, monkeypatch):
    file = host / "cmdline.txt"
    file.write_text(PI + "\n")
    set_arguments(PAGES)

    def interrupt(path, text, access):
        replace(path, text, access)
        if path == file:
            raise KeyboardInterrupt

    replace = kernel_arguments.tools.replace_file_atomically
    monkeypatch.setattr(kernel_arguments.tools, "replace_file_atomically", interrupt)
    with pytest.raises(KeyboardInterrupt):
        set_arguments(["hugepagesz=1G", "hugepages=8"])
    monkeypatch.undo()
    record = json.loads((host / "record/kernel_arguments.json").read_text())
    assert record == [*PAGES, "hugepages=8"], "all that can be in the line"


def test_two_numbers_of_pages_are_refused():
    with pytest.raises(
        AnsibleFilterError, match="hugepagesz=2M hugepages=4, and kernel_arguments_gigantic_pages"
    ):
        add_gigantic_page_arguments(["quiet", "hugepagesz=2M", "hugepages=4"], count=2)


@pytest.mark.parametrize(
    ("files", "programs", "name"),
    [
        ([], [], "none"),
        (["cmdline.txt", "grub.cfg"], ["grub-reboot"], "raspberry-pi"),
        (["config.txt"], ["grubby"], "raspberry-pi"),
        (["grub.cfg"], ["grubby", "grub-reboot"], "grubby"),
        (["grub.cfg"], ["grub-reboot"], "grub"),
        ([], ["grub-reboot"], "none"),
        (["grub.cfg"], [], "none"),
        ([], ["bootctl"], "systemd-boot"),
    ],
)
def test_boot_loader_is_found_in_one_order(host, files, programs, name):
    for file in files:
        (host / file).touch()
    for program in programs:
        add_program(host, program, "echo yes")
    assert kernels.find_boot_loader()[0] == name


def test_grubby_sets_all_entries_unless_they_are_as_requested(host):
    # grubby(8): --info=ALL prints an entry's arguments as args="…".
    log = host / "log"
    add_program(host, "grubby", f"echo \"$@\" >> {log}\necho 'index=0'\necho 'args=\"ro quiet\"'")
    result = set_arguments(["iommu=pt"], ["quiet"])
    assert (result["changed"], result["loader"]) == (True, "grubby")
    assert log.read_text().splitlines() == [
        "--default-kernel",
        "--info=ALL",
        "--update-kernel=ALL --args=iommu=pt --remove-args=quiet",
    ]
    assert not set_arguments(["ro"])["changed"]


def test_invalid_argument_is_refused_before_anything_changes(host):
    (host / "cmdline.txt").write_text(PI + "\n")
    with pytest.raises(HostError, match=r"not an argument of the kernel: 'a\\nb'; give NAME or NAME=VALUE"):
        set_arguments(["a\nb"])
