"""Read kernels: names of packages, dkms status, GRUB's menu, and what grubby is asked."""

import pytest

from ansible_collections.gpufleet.fleet.plugins.module_utils import grub, kernels, tools
from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import HostError

UUID = "5f0c3a52-8a4e-4b7e-9d49-000000000000"
# Written by grub-mkconfig 2.06-13+deb12u2 on a host with two kernels; lines without entries are left out.
MENU = f"""\
menuentry 'GNU/Linux' --class gnu-linux --class gnu --class os $menuentry_id_option 'gnulinux-simple-{UUID}' {{
\tlinux\t/boot/vmlinuz-6.1.0-56-amd64 root=/dev/sda1 ro
}}
submenu 'Advanced options for GNU/Linux' $menuentry_id_option 'gnulinux-advanced-{UUID}' {{
\tmenuentry 'GNU/Linux, with Linux 6.1.0-56-amd64' --class os $menuentry_id_option \
'gnulinux-6.1.0-56-amd64-advanced-{UUID}' {{
\t\tlinux\t/boot/vmlinuz-6.1.0-56-amd64 root=/dev/sda1 ro
\t}}
\tmenuentry 'GNU/Linux, with Linux 6.1.0-56-amd64 (recovery mode)' --class os $menuentry_id_option \
'gnulinux-6.1.0-56-amd64-recovery-{UUID}' {{
\t\tlinux\t/boot/vmlinuz-6.1.0-56-amd64 root=/dev/sda1 ro single
\t}}
\tmenuentry 'GNU/Linux, with Linux 6.1.0-50-amd64' --class os $menuentry_id_option \
'gnulinux-6.1.0-50-amd64-advanced-{UUID}' {{
\t\tlinux\t/boot/vmlinuz-6.1.0-50-amd64 root=/dev/sda1 ro
\t}}
}}
"""


@pytest.mark.parametrize(
    ("name", "is_meta"),
    [
        ("linux-image-amd64", True),
        ("linux-image-cloud-amd64", True),
        ("linux-headers-generic-hwe-22.04", True),
        ("linux-generic-hwe-24.04", True),
        ("linux-modules-nvidia-580-server-open-generic", True),
        ("linux-image-rpi-v8", True),
        ("kernel-core", True),
        ("kernel-64k-devel-matched", True),
        ("linux-image-6.1.0-50-amd64", False),
        ("linux-modules-nvidia-580-server-open-6.8.0-60-generic", False),
        ("linux-modules-6.8.0-60-generic", False),
        ("linux-base", False),
        ("linux-libc-dev", False),
        ("kernel-tools", False),
    ],
)
def test_packages_that_follow_the_newest_kernel_are_known(name, is_meta):
    assert kernels.is_meta_package(name) is is_meta


def test_dkms_status_is_read_in_its_forms():
    # dkms 3.0.10 (Debian 12), the same before its installation, and dkms 2.8 (with a comma).
    text = (
        "nvidia-current/535.261.03, 6.1.0-56-amd64, x86_64: installed\n"
        "nvidia/580.126.20: added\n"
        "nvidia, 470.256.02, 5.15.0-100-generic, x86_64: installed (original_module exists)\n"
    )
    assert kernels.parse_dkms_status(text) == {
        "6.1.0-56-amd64": [{"name": "nvidia-current", "version": "535.261.03", "state": "installed"}],
        "": [{"name": "nvidia", "version": "580.126.20", "state": "added"}],
        "5.15.0-100-generic": [{"name": "nvidia", "version": "470.256.02", "state": "installed"}],
    }


def test_menu_entries_are_those_that_stay_valid_and_are_no_recovery():
    submenu = f"gnulinux-advanced-{UUID}"
    assert grub.parse_menu_entries(MENU) == {
        "6.1.0-56-amd64": f"{submenu}>gnulinux-6.1.0-56-amd64-advanced-{UUID}",
        "6.1.0-50-amd64": f"{submenu}>gnulinux-6.1.0-50-amd64-advanced-{UUID}",
    }


class FakeRedHat:
    """Answer as grubby and grub2-editenv of RHEL 9 do, for two kernels (grubby(8))."""

    def __init__(self):
        self.default, self.next_entry, self.arguments = "/boot/vmlinuz-new", None, {}

    def __call__(self, argv, *_args, **_kwargs):
        program, *options = argv
        if options == ["--default-kernel"]:
            return 0, f"{self.default}\n", ""
        if options[:1] == ["--set-default"]:
            self.default = options[1]
        elif options[:1] == ["--info"]:
            release = options[1].removeprefix("/boot/vmlinuz-")
            if release not in ("old", "new"):
                return 1, "", f"The param {options[1]} is incorrect"
            arguments = self.arguments.get(options[1], "ro")
            return 0, f'index=0\nkernel="{options[1]}"\nargs="{arguments}"\nid="abc-{release}"\n', ""
        elif options[:1] == ["--update-kernel"]:
            self.arguments[options[1]] = f"ro {options[3]}" if options[2] == "--args" else "ro"
        elif program == "grub2-reboot":
            self.next_entry = options[0]
        elif program == "grub2-editenv":
            return 0, f"next_entry={self.next_entry}\n" if self.next_entry else "", ""
        elif program == "uname":
            return 0, "new\n", ""
        else:
            return 127, "", f"{program}: command not found"
        return 0, "", ""


def test_grubby_boots_a_kernel_once_and_then_for_good(monkeypatch):
    redhat = FakeRedHat()
    monkeypatch.setattr(tools, "run_program", redhat)
    boot = grub.Grubby(30, check_mode=False)
    assert boot.pin("old", "new") == (True, {"old": "abc-old", "new": "abc-new"})
    assert (redhat.default, redhat.next_entry) == ("/boot/vmlinuz-old", "abc-new")
    assert redhat.arguments == {"/boot/vmlinuz-new": "ro panic=30"}
    assert boot.pin("old", "new")[0] is False
    assert boot.free() is True
    assert (redhat.default, redhat.arguments) == ("/boot/vmlinuz-new", {"/boot/vmlinuz-new": "ro"})
    assert boot.free() is False
    with pytest.raises(HostError, match="grubby failed: The param /boot/vmlinuz-other is incorrect"):
        boot.pin("other", "")


def test_a_boot_loader_other_than_grub_is_refused():
    with pytest.raises(HostError, match="is not GRUB"):
        grub.find_grub("raspberry-pi")
