# SPDX-FileCopyrightText: gpufleet contributors
# SPDX-License-Identifier: Apache-2.0
"""The types of package changes: what a task asks for, what a host has, and the difference."""

from __future__ import annotations

from typing import Protocol, TypedDict


class PackageListOptions(TypedDict):
    """How old package lists may be, and how long the package manager may take."""

    cache_valid_seconds: int
    lock_timeout_seconds: int
    timeout_seconds: int


class PackageOptions(PackageListOptions):
    """The part ``packages`` of a task."""

    present: list[str]
    absent: list[str]
    held: list[str]
    unheld: list[str]
    allow_downgrade: bool
    install_recommends: bool


class InstalledPackages(Protocol):
    """The packages of a host."""

    def installed_version(self, package_name: str) -> str | None: ...

    def is_package_held(self, package_name: str) -> bool: ...

    def provides_package(self, package_name: str) -> bool: ...

    def list_installed_versions(self) -> dict[str, str]: ...


class PackageChanges(Protocol):
    """Packages to install, as name and version (None: the newest), and packages to remove."""

    install: list[tuple[str, str | None]]
    remove: list[str]
