"""Resolve every planned package set with apt or dnf against the vendors' real repositories. Installs nothing.

    make repositories                                              podman or docker, all eight systems
    make repositories REPOSITORIES="--system debian-12 --root"     debootstrap and chroot (root), without a container
    make repositories REPOSITORIES="--list"                        the package sets only; no network

Each set is resolved in a fresh system, after its repositories were added with their verified keys. Exit status 1: a set
did not resolve, or a system could not be started. ``--distribution-only`` leaves out sets that need a vendor's
repository, for networks that reach a distribution's archive alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from repositories.backend import Backend, BackendError, ChrootBackend, ContainerBackend
from repositories.plans import SYSTEMS, PackageSet, System, collect_package_sets
from repositories.resolve import Resolution, build_input, judge


def resolve_set(package_set: PackageSet, backend: Backend) -> Resolution:
    """Return whether a set resolves, with the package manager's words if not."""
    try:
        files, script = build_input(package_set)
    except BackendError as error:
        return Resolution(False, str(error))
    status, output = backend.run(files, script)
    return judge(package_set.system, status, output)


def resolve_system(
    system: System, options: argparse.Namespace, cache: Path
) -> list[tuple[PackageSet, Resolution]]:
    """Resolve a system's sets one after the other and print each."""
    sets, refusals = collect_package_sets(system)
    if options.distribution_only:
        sets = [package_set for package_set in sets if not package_set.repositories]
    refused = ", ".join(f"{code} {count}" for code, count in sorted(refusals.items())) or "none"
    print(
        f"{system.name}: {len(sets)} package sets; machines that the planner refuses: {refused}", flush=True
    )
    if options.list:
        print(*(f"  {package_set.title}" for package_set in sets), sep="\n")
        return []
    if not sets:
        return []
    try:
        backend: Backend = ChrootBackend(system, cache) if options.root else ContainerBackend(system)
    except BackendError as error:
        print(f"  not resolved: {error}", flush=True)
        return [(package_set, Resolution(False, str(error))) for package_set in sets]
    outcomes = []
    for package_set in sets:
        resolution = resolve_set(package_set, backend)
        outcomes.append((package_set, resolution))
        word = (
            f"resolved ({resolution.reason})"
            if resolution.is_resolved
            else f"NOT resolved: {resolution.reason}"
        )
        print(f"  {package_set.title}: {word}", flush=True)
    return outcomes


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="repositories", description=(__doc__ or "").partition("\n")[0])
    names = [system.name for system in SYSTEMS]
    parser.add_argument("--system", action="append", choices=names, help="can be repeated; default: all")
    parser.add_argument("--root", action="store_true", help="debootstrap and chroot instead of a container")
    parser.add_argument("--cache", type=Path, help="folder that keeps the roots of --root")
    parser.add_argument(
        "--distribution-only", action="store_true", help="only sets without a vendor's repository"
    )
    parser.add_argument("--list", action="store_true", help="print the package sets and stop")
    options = parser.parse_args(arguments)
    systems = [system for system in SYSTEMS if system.name in (options.system or names)]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="gpufleet-repositories-") as folder:
        cache = options.cache or Path(folder)
        outcomes = [outcome for system in systems for outcome in resolve_system(system, options, cache)]
    failures = [resolution for _, resolution in outcomes if not resolution.is_resolved]
    if not options.list:
        print(
            f"{len(outcomes) - len(failures)} of {len(outcomes)} resolved in {time.monotonic() - started:.0f} s"
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
