# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""Choose GRUB's kernel: by its menu file on Debian and Ubuntu, by grubby on RHEL."""

from __future__ import annotations

import re
from pathlib import Path

from ansible_collections.gpufleet.fleet.plugins.module_utils.tools import (
    HEADER,
    HostError,
    first_nonempty_line,
    replace_file_atomically,
    run_program,
    run_required_program,
)

ROOT_FILE = (0o644, 0, 0)  # mode, user and group
DROP_IN = Path("/etc/default/grub.d/60-gpufleet-kernel.cfg")
MENU, ENVIRONMENT = Path("/boot/grub/grub.cfg"), Path("/boot/grub/grubenv")
REDHAT_ENVIRONMENT = Path("/boot/grub2/grubenv")
ENTRY = re.compile(r"^\s*(menuentry|submenu)\s.*\$menuentry_id_option\s+'([^']+)'")
LINUX = re.compile(r"^\s*linux(?:efi|16)?\s+\S*/vmlinuz-(\S+)")


def replace_grub_settings(settings: dict[Path, str]) -> None:
    """Write files of GRUB's settings (no text: remove it) and the menu; a HostError if that fails, all restored."""
    before = {path: path.read_text(encoding="utf-8") if path.is_file() else "" for path in settings}
    for path, text in settings.items():
        _write_settings(path, text)
    code, out, err = run_program(["update-grub"])
    if code:
        for path, text in before.items():
            _write_settings(path, text)
        run_program(["update-grub"])
        reason = first_nonempty_line(*reversed(err.splitlines()), out)
        raise HostError(f"update-grub failed, the previous settings are restored: {reason}")


def _write_settings(path: Path, text: str) -> None:
    if text:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file_atomically(path, text, ROOT_FILE)
    else:
        path.unlink(missing_ok=True)


def parse_menu_entries(menu: str) -> dict[str, str]:
    """Return release -> entry (``submenu>entry``) of a grub.cfg, without recovery entries.

    An entry of a submenu stays valid when a newer kernel takes the first place of the menu.
    """
    entries: dict[str, str] = {}
    submenu, current = "", ""
    for line in menu.splitlines():
        if match := ENTRY.match(line):
            kind, identifier = match.groups()
            if kind == "submenu":
                submenu = identifier
            else:
                current = f"{submenu}>{identifier}" if line[0].isspace() and submenu else identifier
        elif line.startswith("}"):
            submenu = current = ""
        elif (match := LINUX.match(line)) and current and "-recovery-" not in current:
            release = match.group(1)
            if release not in entries or ">" in current:
                entries[release] = current
    return entries


def read_environment(path: Path, program: str) -> dict[str, str]:
    lines = run_required_program(program, str(path), "list").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line)


class DebianGrub:
    """GRUB as Debian and Ubuntu configure it: /etc/default/grub.d and update-grub."""

    def __init__(self, panic_seconds: int, *, check_mode: bool) -> None:
        self.panic_seconds, self.check_mode = panic_seconds, check_mode

    def pin(self, default: str, once_release: str) -> tuple[bool, dict[str, str]]:
        """Return whether anything changed, and the menu entries."""
        changed = self._write_drop_in()
        if changed and self.check_mode:
            return True, {}
        entries = parse_menu_entries(MENU.read_text(encoding="utf-8"))
        if once_release and once_release not in entries and not self.check_mode:
            # The hook of a kernel's package does nothing in a container.
            run_required_program("update-grub")
            entries = parse_menu_entries(MENU.read_text(encoding="utf-8"))
        missing = [release for release in (default, once_release) if release and release not in entries]
        if missing:
            raise HostError(f"GRUB's menu has no entry for {', '.join(missing)}; see /boot/grub/grub.cfg")
        requested = {"saved_entry": entries[default]} | (
            {"next_entry": entries[once_release]} if once_release else {}
        )
        environment = read_environment(ENVIRONMENT, "grub-editenv")
        changed |= any(environment.get(key) != value for key, value in requested.items())
        if not self.check_mode:
            if environment.get("saved_entry") != requested["saved_entry"]:
                run_required_program("grub-set-default", requested["saved_entry"])
            if once_release:
                run_required_program("grub-reboot", requested["next_entry"])
        return changed, entries

    def free(self) -> bool:
        """Remove the drop-in, so that the host's own settings apply; return whether it was there."""
        if not DROP_IN.exists():
            return False
        if not self.check_mode:
            replace_grub_settings({DROP_IN: ""})
            run_required_program("grub-editenv", str(ENVIRONMENT), "unset", "next_entry", "saved_entry")
        return True

    def _write_drop_in(self) -> bool:
        text = (
            f"{HEADER}GRUB_DEFAULT=saved\nGRUB_SAVEDEFAULT=false\n"
            f'GRUB_CMDLINE_LINUX="$GRUB_CMDLINE_LINUX panic={self.panic_seconds}"\n'
        )
        if DROP_IN.exists() and DROP_IN.read_text(encoding="utf-8") == text:
            return False
        if not self.check_mode:
            replace_grub_settings({DROP_IN: text})
        return True


class Grubby:
    """GRUB with entries of the boot loader specification, as RHEL has it: grubby and grub2-reboot (grubby(8))."""

    def __init__(self, panic_seconds: int, *, check_mode: bool) -> None:
        self.panic, self.check_mode = f"panic={panic_seconds}", check_mode

    def pin(self, default: str, once_release: str) -> tuple[bool, dict[str, str]]:
        """Return whether anything changed, and the entries' ids."""
        entries = {release: self._entry_id(release) for release in (default, once_release) if release}
        changed = run_required_program("grubby", "--default-kernel").strip() != f"/boot/vmlinuz-{default}"
        if changed and not self.check_mode:
            run_required_program("grubby", "--set-default", f"/boot/vmlinuz-{default}")
        if once_release:
            changed |= (
                read_environment(REDHAT_ENVIRONMENT, "grub2-editenv").get("next_entry")
                != entries[once_release]
            )
            if not self.check_mode:
                run_required_program(
                    "grubby", "--update-kernel", f"/boot/vmlinuz-{once_release}", "--args", self.panic
                )
                run_required_program("grub2-reboot", entries[once_release])
        return changed, entries

    def free(self) -> bool:
        """Make the newest kernel the default, without ``panic=``; return whether anything changed."""
        running = run_required_program("uname", "-r").strip()
        image = f"/boot/vmlinuz-{running}"
        has_panic = self.panic in run_required_program("grubby", "--info", image)
        is_default = run_required_program("grubby", "--default-kernel").strip() == image
        if not self.check_mode and has_panic:
            run_required_program("grubby", "--update-kernel", image, "--remove-args", self.panic)
        if not self.check_mode and not is_default:
            run_required_program("grubby", "--set-default", image)
        return has_panic or not is_default

    @staticmethod
    def _entry_id(release: str) -> str:
        info = run_required_program("grubby", "--info", f"/boot/vmlinuz-{release}")
        match = re.search(r'^id="?([^"\n]+)"?$', info, re.MULTILINE)
        if match is None:
            raise HostError(f"grubby has no entry for {release}")
        return match.group(1)


def find_grub(name: str) -> type[DebianGrub | Grubby]:
    """Return the class for a boot loader; a HostError for one that is not GRUB."""
    classes: dict[str, type[DebianGrub | Grubby]] = {"grub": DebianGrub, "grubby": Grubby}
    if name not in classes:
        raise HostError("this host's boot loader is not GRUB, so its kernel cannot be chosen")
    return classes[name]
