"""The extras of this package: what a plain ``pip install gpufleet`` leaves out, and the line for one that is missing.

A module of an extra is imported where it is used. pyproject.toml has the packages of each; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ParamSpec

from gpufleet.errors import EnvironmentFault

Parameters = ParamSpec("Parameters")

EXTRAS: dict[str, tuple[str, ...]] = {
    "aws": ("pulumi_aws",),
    "azure": ("azure", "pulumi_azure_native"),
    "bmc": ("pyghmi", "sushy"),
    "gcp": ("google.api_core", "google.auth", "google.cloud", "pulumi_gcp"),
    "mesh": ("receptorctl",),
    "parquet": ("pyarrow",),
    "plots": ("altair", "vl_convert"),
    "policy": ("pulumi_policy",),
    "postgresql": ("psycopg",),
    "registry": ("alembic", "sqlalchemy"),
}
"""Each extra with the modules that only it installs."""


def find_extra(module: str | None) -> str | None:
    """Return the extra that installs a module, None for a module of no extra."""
    return next(
        (
            extra
            for extra, names in EXTRAS.items()
            if any(f"{module}.".startswith(f"{name}.") for name in names)
        ),
        None,
    )


def format_install_command(extra: str) -> str:
    """Return the command that installs an extra."""
    return f"pip install 'gpufleet[{extra}]'"


@contextmanager
def explain_missing_packages() -> Iterator[None]:
    """Raise EnvironmentFault, one line with the command, where an import inside needs an extra."""
    try:
        yield
    except ModuleNotFoundError as error:
        if extra := find_extra(error.name):
            problem = f"{error.name} is not installed: {format_install_command(extra)}"
            raise EnvironmentFault(problem) from None
        raise
