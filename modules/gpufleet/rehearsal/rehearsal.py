"""The rehearsal of one stack: create it, use it, remove it."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gpufleet import engine, paths
from gpufleet.errors import EnvironmentFault
from gpufleet.rehearsal import backend, processes
from gpufleet.rehearsal.environment import build_registry_and_ssh_environment
from gpufleet.rehearsal.paths import RehearsalPaths, list_stack_names

Reporter = Callable[[str], None]


@dataclass(frozen=True)
class RehearsalStatus:
    """What exists of a rehearsal."""

    stack: str
    home: Path
    up: bool
    engine: str | None
    resources: int
    pending_operations: int
    processes: tuple[int, ...]


class Rehearsal(RehearsalPaths):
    """The rehearsal of one stack, in ``<root>/.gpufleet/rehearsal/<stack>``.

    ``up`` and ``down`` can be interrupted and repeated; ``environment`` is what a shell needs to use it. Racks are
    separate: ``rehearsal.rack`` boots their hosts into the same folder.
    """

    @staticmethod
    def find_all_rehearsals(root: Path) -> list[Rehearsal]:
        """Return a rehearsal, up or not, for every stack of the project and every existing rehearsal folder."""
        homes = (home.name for home in (root / ".gpufleet" / "rehearsal").glob("[!.]*") if home.is_dir())
        return [Rehearsal(root, name) for name in sorted({*homes, *list_stack_names(root)})]

    def set_up(self, report: Reporter) -> None:
        """Create everything that plain `pulumi` needs; keep what exists."""
        self.check_stack_exists()
        installed = engine.ensure_pulumi_engine(report)
        with engine.exclusive_file_lock(self.lock_file, report, f"changing the rehearsal of {self.stack}"):
            for folder in (
                self.bin,
                self.backend,
                self.pulumi_home,
                self.providers,
                self.ssh,
                self.artifacts,
            ):
                paths.ensure_private_folder(folder)
            self._install_providers()
            salt = backend.ensure_stack(self, installed)
            self._install_launcher()
            self._write_facts(installed, salt)
        resources = backend.clear_interrupted_run(self, self.build_full_environment(), report)
        report(
            f"rehearsal of {self.stack}: Pulumi {installed.version} ({installed.origin}), simulated clouds, {resources}"
        )

    def build_environment(self) -> dict[str, str]:
        """Return the environment in which pulumi, ansible and gpufleet use this rehearsal."""
        self.check_stack_exists()
        if not self.is_set_up:
            raise EnvironmentFault(
                f"the rehearsal of {self.stack} does not exist",
                hint=f"run `gpufleet rehearse up -s {self.stack}` first",
            )
        facts = self.read_rehearsal_facts()
        current = os.environ.get("PATH", os.defpath).split(os.pathsep)
        path = facts["path"] + [entry for entry in current if entry not in facts["path"]]
        return {**facts["environment"], "PATH": os.pathsep.join(path)}

    def build_full_environment(self) -> dict[str, str]:
        """Return the current environment, overridden by that of the rehearsal, for programs that we start."""
        return {**os.environ, **self.build_environment()}

    def read_status(self) -> RehearsalStatus:
        """Return what exists of the rehearsal; nothing is changed."""
        resources, pending = backend.count_resources_and_pending(self)
        version = self.read_rehearsal_facts()["version"] if self.is_set_up else None
        process_ids = tuple(processes.find_rehearsal_processes(self.home))
        return RehearsalStatus(
            self.stack, self.home, self.is_set_up, version, resources, pending, process_ids
        )

    def tear_down(self, report: Reporter) -> None:
        """Stop every process of the rehearsal and remove its folder."""
        if not self.home.exists():
            report(f"rehearsal of {self.stack}: nothing to remove")
            return
        with engine.exclusive_file_lock(self.lock_file, report, f"changing the rehearsal of {self.stack}"):
            stopped = processes.stop_rehearsal_processes(self.home)
            self.facts_file.unlink(missing_ok=True)  # first: an interrupted `down` must not look like `up`
            shutil.rmtree(self.home)
            self.lock_file.unlink(missing_ok=True)
        report(f"rehearsal of {self.stack}: removed, {stopped} processes stopped")

    def _install_providers(self) -> None:
        from gpufleet.rehearsal.providers import install_provider_launchers

        install_provider_launchers(self.bin, Path(sys.executable))

    def _install_launcher(self) -> None:
        program = Path(__file__).with_name("launcher.py")
        command = [sys.executable, "-I", "-S", str(program), str(self.facts_file)]
        launcher = self.bin / "pulumi"
        temporary = self.bin / ".pulumi.new"
        temporary.write_text(
            f'#!/bin/sh\n# The rehearsal\'s pulumi; see launcher.py\nexec {shlex.join(command)} "$@"\n'
        )
        temporary.chmod(0o755)
        temporary.replace(launcher)
        (self.bin / engine.LAUNCHER_MARK).touch()

    def _write_facts(self, installed: engine.PulumiEngine, salt: str) -> None:
        facts = {
            "stack": self.stack,
            "root": str(self.root),
            "version": installed.version,
            "pulumi": str(installed.pulumi),
            "backend": str(self.backend),
            "settings": str(self.settings_file),
            "settings_copy": str(self.home / self.settings_file.name),
            "salt": salt,
            "path": [str(self.bin), str(installed.bin_dir), str(Path(sys.executable).parent)],
            "environment": self._variables(),
        }
        temporary = self.facts_file.with_suffix(".new")
        temporary.write_text(json.dumps(facts, indent=2) + "\n")
        temporary.replace(self.facts_file)

    def _variables(self) -> dict[str, str]:
        variables = {
            **build_registry_and_ssh_environment(self.home, self.stack),
            **backend.build_engine_environment(self),
            "ANSIBLE_SSH_CONTROL_PATH_DIR": str(processes.ssh_control_folder(self.home)),
        }
        if sys.prefix != sys.base_prefix:
            variables["VIRTUAL_ENV"] = sys.prefix
        return variables
