"""Which account a stack uses, and what every client of a cloud's API has in common: limits, errors, missing extras."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from importlib import import_module
from typing import Any, TypeVar

from gpufleet import fleet
from gpufleet.boundary import make_printable
from gpufleet.errors import EnvironmentFault
from gpufleet.extra import explain_missing_packages

MAX_RESOURCES = 20_000  # of one kind in one listing; more is a mistake of ours or of the service
CONNECT_TIMEOUT_S, READ_TIMEOUT_S, TRIES = 5, 20, 3
STACK_TAG, ACCOUNT_TAG = "gpufleet-stack", "gpufleet-account"

GCP_PROJECT_VARIABLES = ("GOOGLE_CLOUD_PROJECT", "GOOGLE_PROJECT", "CLOUDSDK_CORE_PROJECT")
AZURE_SUBSCRIPTION_VARIABLES = ("ARM_SUBSCRIPTION_ID", "AZURE_SUBSCRIPTION_ID")

Item = TypeVar("Item")


class TooManyResources(EnvironmentFault):
    """A listing does not end: nothing may be concluded from a part of it."""


def list_aws_regions(declared: fleet.Fleet, others: Iterable[str] = ()) -> list[str]:
    """Return the AWS regions of a fleet's pools and the others, in order: AWS lists one region at a time."""
    return sorted({pool.region for pool in declared.pools if pool.cloud == "aws"} | set(others))


def find_gcp_project(declared: fleet.Fleet, environment: Mapping[str, str]) -> str:
    """Return the project of a fleet's GCP pools; EnvironmentFault if stack and environment name none."""
    if named := declared.gcp.project if declared.gcp else declared.provider_project:
        return named
    return _first_variable(environment, GCP_PROJECT_VARIABLES, "gcp: no project", "gcp: {project: …}")


def find_azure_subscription(declared: fleet.Fleet, environment: Mapping[str, str]) -> str:
    """Return the subscription of a fleet's Azure pools; EnvironmentFault if stack and environment name none."""
    if named := declared.azure.subscription if declared.azure else declared.provider_subscription:
        return named
    setting = "azure: {subscription: …}"
    return _first_variable(environment, AZURE_SUBSCRIPTION_VARIABLES, "azure: no subscription", setting)


def _first_variable(environment: Mapping[str, str], names: Iterable[str], problem: str, setting: str) -> str:
    value = next((environment[name] for name in names if environment.get(name)), None)
    if value is None:
        raise EnvironmentFault(problem, hint=f"set {setting} in the spec, or {' or '.join(names)}")
    return value


def parse_time(text: str) -> datetime | None:
    """Return a time that an API wrote, None if it is not one."""
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def format_sdk_error(error: Exception) -> str:
    """Return the first line of an SDK's error, bounded and printable."""
    return make_printable((str(error) or type(error).__name__).splitlines()[0], 200)


def import_sdk(module: str) -> Any:
    """Import a module of a cloud's SDK; EnvironmentFault with the extra that installs it."""
    with explain_missing_packages():
        if module.startswith("google."):
            share_status_message()
        return import_module(module)


def share_status_message() -> None:
    """Let Google's SDKs use Pulumi's copy of the message ``google.rpc.Status``.

    Both packages declare it, in files of different names, and protobuf refuses the second of them in one process:
    "duplicate symbol 'google.rpc.Status'".
    """
    if "google.rpc.status_pb2" in sys.modules:
        return
    from google.protobuf import descriptor_pb2, descriptor_pool

    google_rpc = import_module("google.rpc")
    pulumi_copy = import_module("pulumi.runtime.proto.status_pb2")
    forwarding = descriptor_pb2.FileDescriptorProto(
        name="google/rpc/status.proto",
        package="google.rpc",
        syntax="proto3",
        dependency=[pulumi_copy.DESCRIPTOR.name],
        public_dependency=[0],
    )
    descriptor_pool.Default().AddSerializedFile(forwarding.SerializeToString())
    sys.modules["google.rpc.status_pb2"] = pulumi_copy
    google_rpc.status_pb2 = pulumi_copy  # type: ignore[attr-defined]


def take_bounded(items: Iterable[Item], where: str, limit: int = MAX_RESOURCES) -> Iterator[Item]:
    """Yield the items of a listing; TooManyResources after ``limit``."""
    for count, item in enumerate(items):
        if count >= limit:
            raise TooManyResources(f"{where}: lists more than {limit:,} resources")
        yield item
