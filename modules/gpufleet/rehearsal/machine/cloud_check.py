"""What real clouds need: provider plugins, credentials, a Pulumi backend. Presence only, never a value."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from importlib import metadata
from pathlib import Path

from gpufleet.boundary import decode_json_object, read_bytes
from gpufleet.catalog import CLOUDS
from gpufleet.catalog.cloud import Cloud, CredentialLocation
from gpufleet.errors import InputError
from gpufleet.extra import format_install_command
from gpufleet.rehearsal.machine.check import MachineCheck


def check_cloud_prerequisites(
    home: Path, environment: Mapping[str, str], clouds: Collection[Cloud] = CLOUDS.values()
) -> Iterator[MachineCheck]:
    """Return the checks for a real deployment on some clouds; all are optional because rehearsals need none."""
    for cloud in clouds:
        yield _check_plugin(home, environment, cloud.pulumi_package, cloud.pulumi_python_distribution)
    for cloud in clouds:
        yield _check_sdk(cloud)
    for cloud in clouds:
        yield _check_credentials(home, environment, cloud.credentials)
    yield _check_backend(home, environment)


def _check_plugin(home: Path, environment: Mapping[str, str], name: str, package: str) -> MachineCheck:
    """Look for a real plugin of any version; a rehearsal has its own simulated one."""
    pulumi_home = Path(environment.get("PULUMI_HOME") or home / ".pulumi")
    installed = sorted(path.name for path in pulumi_home.glob(f"plugins/resource-{name}-v*") if path.is_dir())
    version = _package_version(package)
    return MachineCheck(
        f"{name} provider plugin", "optional", bool(installed),
        installed[-1] if installed else "not installed (a rehearsal has a simulated one)",
        f"pulumi plugin install resource {name} {version}".strip(),
    )  # fmt: skip


def _check_sdk(cloud: Cloud) -> MachineCheck:
    """Look for what Pulumi programs of the cloud import, and what calls its API (`quota`, `nodes sweep`)."""
    names = (cloud.pulumi_python_distribution, *cloud.api_distributions)
    versions = {name: _package_version(name) for name in names}
    missing = [name for name, version in versions.items() if not version]
    present = ", ".join(f"{name} {version}" for name, version in versions.items())
    detail = f"not installed: {', '.join(missing)}" if missing else present
    return MachineCheck(
        f"{cloud.title} SDK", "optional", not missing, detail, format_install_command(cloud.name)
    )


def _package_version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _check_credentials(
    home: Path, environment: Mapping[str, str], credentials: CredentialLocation
) -> MachineCheck:
    present = [variable for variable in credentials.variables if environment.get(variable)]
    present += [f"~/{file}" for file in credentials.files if (home / file).is_file()]
    detail = f"present: {', '.join(present)}" if present else "none (a rehearsal needs none)"
    return MachineCheck(credentials.title, "optional", bool(present), detail, credentials.command)


def _check_backend(home: Path, environment: Mapping[str, str]) -> MachineCheck:
    rehearsal = environment.get("GPUFLEET_REHEARSAL")
    if rehearsal:
        return MachineCheck("Pulumi backend", "optional", ok=True, detail=f"the rehearsal of {rehearsal}")
    for variable in ("PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN"):
        if environment.get(variable):
            return MachineCheck("Pulumi backend", "optional", ok=True, detail=f"present: {variable}")
    file = home / ".pulumi" / "credentials.json"
    logged_in = file.is_file() and bool(_read_json(file).get("current"))
    detail = (
        "logged in: ~/.pulumi/credentials.json" if logged_in else "not logged in (a rehearsal has its own)"
    )
    return MachineCheck("Pulumi backend", "optional", logged_in, detail, "pulumi login")


def _read_json(file: Path) -> dict[str, object]:
    try:
        return decode_json_object(read_bytes(file), str(file))
    except InputError:
        return {}
