"""One stack's rehearsal: its folder, its environment, and how it comes and goes."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpufleet import engine, paths
from gpufleet.boundary import OWN_STATE, decode_json_object, read_bytes
from gpufleet.errors import EnvironmentFault, InputError
from gpufleet.rehearsal import backend, processes

Say = Callable[[str], None]


@dataclass(frozen=True)
class WorldStatus:
    """How much of a rehearsal is there."""

    stack: str
    home: Path
    up: bool
    engine: str | None
    resources: int
    pending_operations: int
    processes: tuple[int, ...]


class World:
    """The rehearsal of one stack, in ``<root>/.gpufleet/rehearsal/<stack>``.

    ``up`` may be repeated and interrupted at will; ``env`` is what a shell needs to use it; ``down`` leaves
    nothing. Racks are not its business: ``rehearsal.rack`` boots them into the same folder.
    """

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
        self.addresses = self.home / "addresses.json"
        self.artifacts = self.home / "artifacts"
        self.facts = self.home / "env.json"
        self.settings = self.root / "stacks" / f"Pulumi.{stack}.yaml"

    @staticmethod
    def all_in(root: Path) -> list[World]:
        """Return the rehearsal, up or not, of every stack that the project has or had."""
        homes = (home.name for home in (root / ".gpufleet" / "rehearsal").glob("[!.]*") if home.is_dir())
        return [World(root, name) for name in sorted({*homes, *stack_names(root)})]

    @property
    def lock(self) -> Path:
        """The lock file stands beside the home, which ``down`` removes."""
        return self.home.with_name(f".{self.stack}.lock")

    @property
    def is_up(self) -> bool:
        """Whether ``up`` came to its end: ``env.json`` is the last thing it writes."""
        return self.facts.is_file()

    def up(self, say: Say) -> None:
        """Make everything that plain `pulumi` needs; what is there already stays."""
        self.check_stack()
        found = engine.ensure(say)
        with engine.exclusive(self.lock, say, f"changing the rehearsal of {self.stack}"):
            for folder in (
                self.bin,
                self.backend,
                self.pulumi_home,
                self.providers,
                self.ssh,
                self.artifacts,
            ):
                paths.private_folder(folder)
            self._install_providers()
            salt = backend.ensure_stack(self, found)
            self._install_launcher()
            self._write_facts(found, salt)
        cleared = backend.settle(self, say)
        say(
            f"rehearsal of {self.stack}: Pulumi {found.version} ({found.origin}), simulated clouds, {cleared}"
        )

    def env(self) -> dict[str, str]:
        """Return the environment in which pulumi, ansible and gpufleet use this rehearsal."""
        self.check_stack()
        if not self.is_up:
            raise EnvironmentFault(
                f"there is no rehearsal of {self.stack}",
                hint=f"run `gpufleet rehearse up -s {self.stack}` first",
            )
        facts = self.read_facts()
        current = os.environ.get("PATH", os.defpath).split(os.pathsep)
        path = facts["path"] + [entry for entry in current if entry not in facts["path"]]
        return {**facts["environment"], "PATH": os.pathsep.join(path)}

    def full_env(self) -> dict[str, str]:
        """Return the current environment with the rehearsal's laid over it, for programs we start."""
        return {**os.environ, **self.env()}

    def status(self) -> WorldStatus:
        """Tell what is there, without changing anything."""
        resources, pending = backend.count(self)
        version = self.read_facts()["version"] if self.is_up else None
        running = tuple(processes.of_home(self.home))
        return WorldStatus(self.stack, self.home, self.is_up, version, resources, pending, running)

    def down(self, say: Say) -> None:
        """End every pulumi process of the rehearsal and remove its folder."""
        if not self.home.exists():
            say(f"rehearsal of {self.stack}: nothing there")
            return
        with engine.exclusive(self.lock, say, f"changing the rehearsal of {self.stack}"):
            ended = processes.end(self.home)
            self.facts.unlink(missing_ok=True)  # first, so that an interrupted `down` is not taken for `up`
            shutil.rmtree(self.home)
            self.lock.unlink(missing_ok=True)
        say(f"rehearsal of {self.stack}: removed, {ended} processes ended")

    def check_stack(self) -> None:
        """Refuse a stack that the project does not have."""
        if self.settings.is_file():
            return
        names = ", ".join(stack_names(self.root)) or "none"
        raise InputError(f"no stack {self.stack!r}", where="-s", remedy=f"stacks here are {names}")

    def check_known(self) -> None:
        """Refuse a stack that the project neither has nor rehearses: a misspelt name would look like success."""
        if not self.home.exists():
            self.check_stack()

    def read_facts(self) -> dict[str, Any]:
        """Return what ``up`` wrote down."""
        try:
            return decode_json_object(read_bytes(self.facts, OWN_STATE), str(self.facts), OWN_STATE)
        except InputError as damaged:
            remedy = f"gpufleet rehearse down -s {self.stack}, then up again"
            raise InputError(damaged.problem, where=damaged.where, remedy=remedy) from None

    def _install_providers(self) -> None:
        from gpufleet.rehearsal.providers import install

        install(self.bin, Path(sys.executable))

    def _install_launcher(self) -> None:
        program = Path(__file__).with_name("launcher.py")
        words = [sys.executable, "-I", "-S", str(program), str(self.facts)]
        launcher = self.bin / "pulumi"
        fresh = self.bin / ".pulumi.new"
        fresh.write_text(
            f'#!/bin/sh\n# The rehearsal\'s pulumi; see launcher.py\nexec {shlex.join(words)} "$@"\n'
        )
        fresh.chmod(0o755)
        fresh.replace(launcher)
        (self.bin / engine.LAUNCHER_MARK).touch()

    def _write_facts(self, found: engine.Engine, salt: str) -> None:
        facts = {
            "stack": self.stack,
            "root": str(self.root),
            "version": found.version,
            "pulumi": str(found.pulumi),
            "backend": str(self.backend),
            "settings": str(self.settings),
            "settings_copy": str(self.home / self.settings.name),
            "salt": salt,
            "path": [str(self.bin), str(found.bin_dir), str(Path(sys.executable).parent)],
            "environment": self._environment(),
        }
        fresh = self.facts.with_suffix(".new")
        fresh.write_text(json.dumps(facts, indent=2) + "\n")
        fresh.replace(self.facts)

    def _environment(self) -> dict[str, str]:
        # Three readers: Ansible splits by shell rules, ssh by its own, and to ssh a percent sign is special.
        known_hosts = shlex.quote(f'UserKnownHostsFile="{str(self.known_hosts).replace("%", "%%")}"')
        options = f"-o {known_hosts} -o StrictHostKeyChecking=yes"
        environment = {
            "GPUFLEET_HOME": str(self.home),
            "GPUFLEET_REHEARSAL": self.stack,
            "GPUFLEET_DATABASE_URL": f"sqlite:///{self.home / 'registry.db'}",
            "GPUFLEET_ADDRESS_BOOK": str(self.addresses),
            **backend.environment(self),
            "ANSIBLE_PRIVATE_KEY_FILE": str(self.private_key),
            "ANSIBLE_SSH_COMMON_ARGS": options,
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(processes.control_path(self.home)),
        }
        if sys.prefix != sys.base_prefix:
            environment["VIRTUAL_ENV"] = sys.prefix
        return environment


def stack_names(root: Path) -> list[str]:
    """Return the stacks that the project declares."""
    files = (root / "stacks").glob("Pulumi.*.yaml")
    return sorted(path.name.removeprefix("Pulumi.").removesuffix(".yaml") for path in files)
