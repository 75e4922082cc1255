"""Instances that Compute Engine lists: one aggregated listing over all zones of a project."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from gpufleet.boundary import Json
from gpufleet.catalog.prices.refresh.source import MissingCredentials, RequestRejected, SourceUnavailable
from gpufleet.nodes.cloud_api.account import (
    READ_TIMEOUT_S,
    STACK_TAG,
    TRIES,
    format_sdk_error,
    import_sdk,
    parse_time,
    take_bounded,
)
from gpufleet.nodes.cloud_api.instance import CloudGroup, CloudInstance, build_stack_report
from gpufleet.nodes.pulumi_state import get_nested_text, get_nested_value
from gpufleet.nodes.source_report import SourceReport

OUR_LABEL_FILTER = f"labels.{STACK_TAG}:*"  # AIP-160: the label is set, whatever its value
_PAGE_SIZE = 500  # the most that Compute Engine gives


@dataclass
class GcpApi:
    """Clients of one project. ``endpoint`` is Google's if left out."""

    project: str
    credentials: Any = None
    endpoint: str | None = None

    def client(self, service: str) -> Any:
        """Return the client of a service of Compute Engine, such as ``Instances``."""
        with self.translate_errors(f"compute.{service.lower()}.list"):
            credentials = self._credentials  # before the import, which takes seconds
            compute = import_sdk("google.cloud.compute_v1")
            return getattr(compute, f"{service}Client")(credentials=credentials, client_options=self._options)

    @cached_property
    def quotas(self) -> Any:
        """Return the client of Cloud Quotas."""
        quotas = import_sdk("google.cloud.cloudquotas_v1")
        with self.translate_errors("cloudquotas.quotas.get"):
            return quotas.CloudQuotasClient(
                credentials=self._credentials, transport="rest", client_options=self._options
            )

    @cached_property
    def _credentials(self) -> Any:
        if self.credentials is not None:
            return self.credentials
        auth = import_sdk("google.auth")
        return auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])[0]

    @property
    def _options(self) -> dict[str, str]:
        return {"api_endpoint": self.endpoint} if self.endpoint else {}

    def call_options(self) -> dict[str, Any]:
        """Return the timeout and the bounded retry of one call."""
        retry = import_sdk("google.api_core.retry")
        predicate = retry.if_transient_error
        return {
            "timeout": READ_TIMEOUT_S,
            "retry": retry.Retry(predicate=predicate, timeout=READ_TIMEOUT_S * TRIES),
        }

    def list_aggregated(self, service: str, listing: str, labels: str = OUR_LABEL_FILTER) -> list[Json]:
        """Return the resources of one kind in all zones and regions that match a filter of labels."""
        client = self.client(service)
        permission = f"compute.{service.lower()}.list"
        request: Json = {"project": self.project, "max_results": _PAGE_SIZE}
        if labels:
            request["filter"] = labels
        with self.translate_errors(permission):
            scopes = client.aggregated_list(request=request, **self.call_options())
            items = (item for _, scope in scopes for item in getattr(scope, listing))
            return [to_dict(item) for item in take_bounded(items, f"gcp {permission}")]

    @contextmanager
    def translate_errors(self, permission: str) -> Iterator[None]:
        """Translate the SDK's errors into those of gpufleet."""
        errors, auth = (
            import_sdk("google.api_core.exceptions"),
            import_sdk("google.auth.exceptions"),
        )
        unreadable = import_sdk("google.protobuf.json_format").Error
        name = f"gcp {self.project}"
        hint = f"give Google credentials (gcloud auth application-default login) that allow {permission}"
        try:
            yield
        except (auth.GoogleAuthError, errors.Unauthorized, errors.Forbidden) as error:
            raise MissingCredentials(f"{name}: {format_sdk_error(error)}", hint=hint) from None
        except (errors.BadRequest, errors.NotFound) as error:
            raise RequestRejected(f"{name}: {format_sdk_error(error)}", hint=hint) from None
        except (errors.GoogleAPIError, unreadable, OSError, ValueError) as error:  # OSError: no connection
            raise SourceUnavailable(f"{name}: {format_sdk_error(error)}") from None


def resource_path(link: str) -> str:
    """Return the path of a resource in its link, which is its id in the API; empty if the link has none."""
    return link[link.find("projects/") :] if "projects/" in link else ""


def to_dict(message: Any) -> Json:
    """Return a message of Google's SDK as plain values, without the fields that it does not set."""
    json_format = import_sdk("google.protobuf.json_format")
    values: Json = json_format.MessageToDict(type(message).pb(message), preserving_proto_field_name=True)
    return values


def fetch_gcp_instance_report(
    stack_tag: str,
    api: GcpApi,
    observed_at: datetime,
    groups: Iterable[CloudGroup] = (),
    *,
    account: str = "",
    prefer_public: bool = False,
) -> SourceReport:
    """Return a stack's instances in one project; EnvironmentFault when the API does not answer."""
    return build_stack_report(
        "gcp",
        list_gcp_instances(api),
        stack_tag,
        observed_at,
        groups,
        account=account,
        prefer_public=prefer_public,
    )


def list_gcp_instances(api: GcpApi, labels: str = OUR_LABEL_FILTER) -> list[CloudInstance]:
    """Return the instances of a project with our label; with ``labels=""`` every instance."""
    return [parse_gcp_instance(answer) for answer in api.list_aggregated("Instances", "instances", labels)]


def parse_gcp_instance(answer: Mapping[str, Any]) -> CloudInstance:
    """Return one instance of Compute Engine's answer. Pure."""
    zone = get_nested_text(answer, "zone").rpartition("/")[2]
    name = get_nested_text(answer, "name")
    link = get_nested_text(answer, "self_link")
    number = get_nested_value(answer, "id")
    model = get_nested_text(answer, "scheduling", "provisioning_model")
    is_spot = model == "SPOT" or get_nested_value(answer, "scheduling", "preemptible") is True
    return CloudInstance(
        cloud="gcp",
        instance_id=str(number) if isinstance(number, int | str) else name,
        resource_id=resource_path(link) or name,
        name=name,
        region=zone.rpartition("-")[0],
        machine=get_nested_text(answer, "machine_type").rpartition("/")[2],
        state=get_nested_text(answer, "status").lower(),
        lifecycle="spot" if is_spot else (model.lower() or "standard"),
        zone=zone,
        private_address=get_nested_text(answer, "network_interfaces", 0, "network_i_p"),
        public_address=get_nested_text(answer, "network_interfaces", 0, "access_configs", 0, "nat_i_p"),
        group=_creator(answer),
        created_at=parse_time(get_nested_text(answer, "creation_timestamp")),
        tags=read_labels(answer),
        accelerators=_read_accelerators(answer),
    )


def _read_accelerators(answer: Mapping[str, Any]) -> dict[str, int]:
    """Return how many accelerators of each type an instance has."""
    cards = get_nested_value(answer, "guest_accelerators")
    counts: dict[str, int] = {}
    for card in cards if isinstance(cards, list) else ():
        count = get_nested_value(card, "accelerator_count")
        if isinstance(count, int):
            counts[get_nested_text(card, "accelerator_type").rpartition("/")[2]] = count
    return counts


def _creator(answer: Mapping[str, Any]) -> str:
    """Return the managed group that made an instance: Google writes it into the instance's metadata."""
    items = get_nested_value(answer, "metadata", "items")
    creators = (
        get_nested_text(item, "value") for item in items or () if get_nested_text(item, "key") == "created-by"
    )
    return next(creators, "")


def read_labels(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return a resource's labels."""
    labels = get_nested_value(answer, "labels")
    return {str(key): str(value) for key, value in labels.items()} if isinstance(labels, dict) else {}
