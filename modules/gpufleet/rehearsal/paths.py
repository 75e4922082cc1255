"""Where the rehearsal of one stack keeps its files, and what its ``env.json`` records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gpufleet.boundary import OWN_STATE, decode_json_object, read_bytes
from gpufleet.engine import read_project_setting
from gpufleet.errors import InputError
from gpufleet.paths import read_stack_name, refuse_stack_file_name


class RehearsalPaths:
    """The folder ``<root>/.gpufleet/rehearsal/<stack>`` and the files in it; nothing here writes to the disk."""

    def __init__(self, root: Path, stack: str) -> None:
        self.root = root.resolve()
        self.stack = stack
        self.home = self.root / ".gpufleet" / "rehearsal" / stack
        self.bin = self.home / "bin"
        self.backend = self.home / "backend"
        self.pulumi_home = self.home / "pulumi"
        self.providers = self.home / "providers"
        self.ssh = self.home / "ssh"
        self.private_key = self.ssh / "id_ed25519"
        self.known_hosts = self.ssh / "known_hosts"
        self.address_book = self.home / "addresses.json"
        self.artifacts = self.home / "artifacts"
        self.facts_file = self.home / "env.json"
        self.settings_file = find_settings_folder(self.root) / f"Pulumi.{stack}.yaml"

    @property
    def lock_file(self) -> Path:
        """The lock file is next to the home, because ``down`` removes the home."""
        return self.home.with_name(f".{self.stack}.lock")

    @property
    def is_set_up(self) -> bool:
        """True if ``up`` completed: ``env.json`` is the last file that it writes."""
        return self.facts_file.is_file()

    def check_stack_exists(self) -> None:
        """Raise InputError if the project does not have this stack."""
        if self.settings_file.is_file():
            return
        refuse_stack_file_name(self.stack)
        names = ", ".join(list_stack_names(self.root)) or "none"
        raise InputError(f"stack {self.stack!r} not found", where="-s", remedy=f"stacks here are {names}")

    def check_stack_or_rehearsal_exists(self) -> None:
        """Raise InputError if the project has neither the stack nor a rehearsal of it, e.g. a misspelt name."""
        if not self.home.exists():
            self.check_stack_exists()

    def read_rehearsal_facts(self) -> dict[str, Any]:
        """Return the content of ``env.json``."""
        try:
            return decode_json_object(read_bytes(self.facts_file, OWN_STATE), str(self.facts_file), OWN_STATE)
        except InputError as error:
            remedy = f"gpufleet rehearse down -s {self.stack}, then up again"
            raise InputError(error.problem, where=error.where, remedy=remedy) from None


def find_settings_folder(root: Path) -> Path:
    """Return the folder of the stacks' files: ``stackConfigDir`` of Pulumi.yaml, else next to it."""
    return root / read_project_setting(root, "stackConfigDir")


def list_stack_names(root: Path) -> list[str]:
    """Return the stacks that the project declares."""
    files = find_settings_folder(root).glob("Pulumi.*.yaml")
    return sorted(map(read_stack_name, files))
