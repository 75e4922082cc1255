"""Read the site's own files next to Pulumi.yaml; nothing is judged or planned by half of one."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpufleet import paths
from gpufleet.boundary import read_text
from gpufleet.errors import InputError, ProjectFileError

if TYPE_CHECKING:
    from gpufleet.burnin import KernelRule, ThresholdOverride
    from gpufleet.drivers import GpuCard
    from gpufleet.operations.watch.policy import WatchPolicy

# Where each is parsed: the imports take longer than a plan, and most sites have none of the files.
PARSERS = {
    paths.OVERRIDE_FILE: ("gpufleet.burnin.override_file", "parse_overrides"),
    paths.KERNEL_RULE_FILE: ("gpufleet.burnin.kernel_rule_file", "parse_kernel_rules"),
    paths.RULE_FILE: ("gpufleet.burnin.rule_switch", "parse_rule_switches"),
    paths.WATCH_FILE: ("gpufleet.operations.watch.policy", "parse_watch_policy"),
    paths.CARD_FILE: ("gpufleet.drivers.site_cards", "parse_site_cards"),
}


def parse_site_file(path: Path) -> Any:
    """Return what a file of PARSERS says; anything wrong is an InputError with its place."""
    module, function = PARSERS[path.name]
    return getattr(import_module(module), function)(read_text(path), path.name)


def check_site_files() -> None:
    """Raise ProjectFileError for the first file of the site that is not right."""
    for name in PARSERS:
        _load(name)


def load_site_overrides() -> tuple[ThresholdOverride, ...]:
    """Return the site's overrides; ProjectFileError for a file that is not right."""
    return _load(paths.OVERRIDE_FILE) or ()


def load_site_kernel_rules() -> tuple[KernelRule, ...]:
    """Return the site's rules of the kernel log; ProjectFileError for a file that is not right."""
    return _load(paths.KERNEL_RULE_FILE) or ()


def load_recorded_rules() -> frozenset[str]:
    """Return the rules over time that the site only records; ProjectFileError for a file that is not right."""
    return _load(paths.RULE_FILE) or frozenset()


def load_site_cards() -> tuple[GpuCard, ...]:
    """Return the site's own cards; ProjectFileError for a file that is not right."""
    return _load(paths.CARD_FILE) or ()


def load_watch_policy() -> WatchPolicy:
    """Return what the watch does at this site; ProjectFileError for a file that is not right."""
    from gpufleet.operations.watch.policy import DEFAULT_POLICY

    return _load(paths.WATCH_FILE) or DEFAULT_POLICY


def _load(name: str) -> Any:
    """Return what a file says; None outside a project and without the file."""
    try:
        path = paths.find_project_root() / name
    except InputError:
        return None
    if not (path.exists() or path.is_symlink()):
        return None
    version: tuple[int, ...] = ()  # of a dangling link: reading it says so
    with suppress(OSError):
        status = path.stat()
        version = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    try:
        return _parse_version(path, version)
    except InputError as error:
        raise ProjectFileError(error.problem, where=error.where, key=error.key, remedy=error.remedy) from None


@lru_cache(maxsize=2 * len(PARSERS))
def _parse_version(path: Path, version: tuple[int, ...]) -> Any:  # noqa: ARG001 - part of the cache's key
    """Return what a version of a file says: every node of a fleet is judged by it."""
    return parse_site_file(path)
