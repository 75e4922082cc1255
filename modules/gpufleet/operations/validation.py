"""Validate everything that a project declares, all files in one reading, without engine, network or credentials.

Each room reads its own files. Here their errors are put together, one line each: ``file:line: what, what would be
right``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from gpufleet import fleet, paths
from gpufleet.boundary import read_text
from gpufleet.errors import InputError
from gpufleet.operations.inventory_check import check_inventory_file, list_inventory_files
from gpufleet.operations.site_file import PARSERS, parse_site_file

Answer = TypeVar("Answer")
COMMITMENTS = "commitments.yaml"
PROJECT_LIST = "gpufleet-cost.yaml"
POLICY = "policy.yaml"  # as `gpufleet init` writes it


@dataclass(frozen=True)
class Finding:
    """A mistake or a warning; ``line`` is 1 where the whole file is meant."""

    file: str
    line: int
    key: str
    problem: str
    remedy: str

    @property
    def text(self) -> str:
        """Return it as one line."""
        where = f"{self.file}:{self.line}"
        return str(InputError(self.problem, where=where, key=self.key, remedy=self.remedy))


@dataclass(frozen=True)
class ValidationReport:
    """The files that were read, and what is wrong with them or deserves a look.

    ``has_own_program`` if the stacks are those of a Pulumi program of the user's own, which is not read.
    """

    files: tuple[str, ...]
    errors: tuple[Finding, ...]
    warnings: tuple[Finding, ...]
    has_own_program: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the stable shape that ``gpufleet validate --json`` prints."""
        return {
            "valid": not self.errors,
            "files": list(self.files),
            "errors": [asdict(finding) for finding in self.errors],
            "warnings": [asdict(finding) for finding in self.warnings],
        }

    def format_lines(self) -> list[str]:
        """Return a line for each finding, the errors first, and one that counts them."""
        lines = [f"error: {finding.text}" for finding in self.errors]
        lines += [f"warning: {finding.text}" for finding in self.warnings]
        unchecked = "; the Pulumi program is not checked: gpufleet cost estimate -s STACK checks it"
        counts = {"file": self.files, "error": self.errors, "warning": self.warnings}
        return [
            *lines,
            ", ".join(
                f"{len(items)} {name}{'' if len(items) == 1 else 's'}" for name, items in counts.items()
            )
            + unchecked * self.has_own_program,
        ]


def validate_project(root: Path, stack: str | None = None) -> ValidationReport:
    """Return what is wrong with everything that a project declares, or with one stack and the files that it names."""
    reading = _Reading(root)
    if stack:
        fleet.check_stack_exists(stack, root)
        reading.read_stack(stack)
    else:
        stack_files, inventory_files = _list_stack_files(root), list_inventory_files(root)
        for path in stack_files:
            reading.read_stack(paths.read_stack_name(path))
        if inventory_files and not stack_files:  # reading a stack checks the names of all racks
            reading.read(inventory_files[0], lambda _: fleet.check_project_host_names(root))
        for path in inventory_files:
            reading.warnings += reading.read(path, lambda path: check_inventory_file(path, root)) or []
        reading.read_cost_files()
        reading.read_site_files()
    if not reading.files:
        remedy = "write stacks/Pulumi.<stack>.yaml or inventory/<rack>.yaml: gpufleet init ."
        raise InputError("no stack and no rack is declared", where=str(root), remedy=remedy)
    return reading.build_report()


def _list_stack_files(root: Path) -> list[Path]:
    """Return the files of the stacks that declare a fleet: all, unless the Pulumi program is the user's own."""
    program = root / "stacks/__main__.py"
    is_own = program.is_file() and "declare_stack" not in read_text(program)
    return [
        path
        for path in sorted(root.glob("stacks/Pulumi.*.yaml"))
        if not is_own or fleet.CONFIG_KEY in read_text(path)
    ]


class _Reading:
    """The files of a project that were read, and what was found in them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: set[Path] = set()
        self.errors: list[InputError] = []
        self.warnings: list[InputError] = []

    def read(self, path: Path, reader: Callable[[Path], Answer]) -> Answer | None:
        """Return what the reader makes of a file; None if it is wrong."""
        self.files.add(path)
        try:
            return reader(path)
        except InputError as error:
            self.errors += error.errors
            return None

    def read_stack(self, name: str) -> None:
        """Read a stack's file and the racks and container files that it names."""
        path = self.root / f"stacks/Pulumi.{name}.yaml"
        declared, errors, warnings = fleet.check_stack(name, self.root)
        self.files.add(path)
        self.errors += errors
        self.warnings += warnings
        if declared:
            self.files |= {self.root / rack.inventory_file for rack in declared.racks}
            self.files |= {self.root / name for name in declared.container_files}
            lines = {pool.name: fleet.find_pool_line(path, pool.name) for pool in declared.pools}
            racks = [rack.rack for rack in declared.racks]
            self.warnings += [
                warning for rack in racks for warning in fleet.list_rack_warnings(rack, self.root)
            ]
            noted_racks = {fleet.note_equal_prices(rack) for rack in racks}  # their file has the line
            for note in fleet.list_planning_notes(declared):
                words = re.findall(r"[\w-]+", note)
                named = [line for name, line in lines.items() if line and name in words]
                if note not in noted_racks:
                    self.warnings.append(
                        InputError(note, where=f"{path}:{min(named)}" if named else str(path))
                    )

    def read_cost_files(self) -> None:
        """Read commitments, policy, and the list of projects with the policy and the usage files that it names."""
        commitments, listed = self.root / COMMITMENTS, self.root / PROJECT_LIST
        policy = self.root / POLICY
        from gpufleet.cost.analysis.policy.file import load_policy

        if commitments.exists():
            from gpufleet.cost.pricing.commitments.file import read_commitments_file

            self.read(commitments, read_commitments_file)
        if policy.exists():
            self.read(policy, load_policy)
        if listed.exists():
            from gpufleet.cost.inputs.project_list import load_project_list
            from gpufleet.cost.inputs.usage.file import load_usage_file

            projects = self.read(listed, load_project_list)
            if projects and projects.policy:
                self.read(projects.policy, load_policy)
            for project in projects.projects if projects else ():
                if project.usage:
                    self.read(project.usage, load_usage_file)

    def read_site_files(self) -> None:
        """Read the site's own files of burn-in and driver plans."""
        for name in PARSERS:
            if (path := self.root / name).exists():
                self.read(path, parse_site_file)

    def build_report(self) -> ValidationReport:
        """Return the findings in the order of files and lines, each once."""
        names = sorted(fleet.project_relative_path(path, self.root) for path in self.files)
        is_own = (self.root / "Pulumi.yaml").is_file() and not fleet.is_fleet_project(self.root)
        return ValidationReport(tuple(names), self._sort(self.errors), self._sort(self.warnings), is_own)

    def _sort(self, errors: Iterable[InputError]) -> tuple[Finding, ...]:
        findings = dict.fromkeys(map(self._build_finding, errors))
        return tuple(sorted(findings, key=lambda finding: (finding.file, finding.line)))

    def _build_finding(self, error: InputError) -> Finding:
        match = re.fullmatch(r"(.*?)(?::(\d+))?", error.where)
        file, line = match.groups() if match else (error.where, None)
        file = file.removeprefix(f"{self.root}/")
        return Finding(file, int(line or 1), error.key, error.problem, error.remedy)
