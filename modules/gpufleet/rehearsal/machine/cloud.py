"""What real clouds would need: provider plugins, credentials, a Pulumi backend. Presence only, never a value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path

from gpufleet.boundary import decode_json_object, read_bytes
from gpufleet.errors import InputError
from gpufleet.rehearsal.machine.check import Check

PLUGINS = {"aws": "pulumi-aws", "gcp": "pulumi-gcp", "azure-native": "pulumi-azure-native"}
# cloud -> variables that carry or name credentials, files that hold them, and the command that makes them
CREDENTIALS = {
    "AWS credentials": (
        ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_WEB_IDENTITY_TOKEN_FILE"),
        (".aws/credentials", ".aws/config"),
        "aws configure",
    ),
    "Google Cloud credentials": (
        ("GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CREDENTIALS", "GOOGLE_OAUTH_ACCESS_TOKEN"),
        (".config/gcloud/application_default_credentials.json",),
        "gcloud auth application-default login",
    ),
    "Azure credentials": (
        ("ARM_CLIENT_ID", "AZURE_CLIENT_ID", "ARM_USE_MSI", "ARM_USE_OIDC"),
        (".azure/azureProfile.json",),
        "az login",
    ),
}


def checks(home: Path, environment: Mapping[str, str]) -> Iterator[Check]:
    """Return what a real deployment would find; all of it optional: rehearsals need none."""
    yield from (_plugin(home, environment, name, package) for name, package in PLUGINS.items())
    yield from (_credentials(home, environment, name) for name in CREDENTIALS)
    yield _backend(home, environment)


def _plugin(home: Path, environment: Mapping[str, str], name: str, package: str) -> Check:
    """Look for a real plugin of any version; a rehearsal brings its own simulated one."""
    pulumi_home = Path(environment.get("PULUMI_HOME") or home / ".pulumi")
    found = sorted(path.name for path in pulumi_home.glob(f"plugins/resource-{name}-v*") if path.is_dir())
    version = _version(package)
    return Check(
        f"{name} provider plugin", "optional", bool(found),
        found[-1] if found else "not installed (a rehearsal has a simulated one)",
        f"pulumi plugin install resource {name} {version}".strip(),
    )  # fmt: skip


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _credentials(home: Path, environment: Mapping[str, str], name: str) -> Check:
    variables, files, command = CREDENTIALS[name]
    present = [variable for variable in variables if environment.get(variable)]
    present += [f"~/{file}" for file in files if (home / file).is_file()]
    found = f"present: {', '.join(present)}" if present else "none (a rehearsal needs none)"
    return Check(name, "optional", bool(present), found, command)


def _backend(home: Path, environment: Mapping[str, str]) -> Check:
    rehearsal = environment.get("GPUFLEET_REHEARSAL")
    if rehearsal:
        return Check("Pulumi backend", "optional", ok=True, found=f"the rehearsal of {rehearsal}")
    for variable in ("PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN"):
        if environment.get(variable):
            return Check("Pulumi backend", "optional", ok=True, found=f"present: {variable}")
    file = home / ".pulumi" / "credentials.json"
    logged_in = file.is_file() and bool(_json(file).get("current"))
    found = (
        "logged in: ~/.pulumi/credentials.json" if logged_in else "not logged in (a rehearsal has its own)"
    )
    return Check("Pulumi backend", "optional", logged_in, found, "pulumi login")


def _json(file: Path) -> dict[str, object]:
    try:
        return decode_json_object(read_bytes(file), str(file))
    except InputError:
        return {}
