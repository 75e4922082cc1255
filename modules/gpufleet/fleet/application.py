"""A template's third step: the volumes and containers of an application."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema, model_validator

from gpufleet.fleet.frozen_model import (
    FrozenModel,
    Name,
    StrictInt,
    build_pattern_annotations,
    build_spec_error,
)
from gpufleet.fleet.profile import HostPath

Port = Annotated[StrictInt, Field(ge=1, le=65535)]
Seconds = Annotated[StrictInt, Field(ge=1, le=86400)]
SECRET_NAMES = re.compile(
    r"(TOKEN|PASSWORD|PASSWD|SECRET|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIALS?)$", re.IGNORECASE
)
MAX_CARDS = 16
VOLUMES_FOLDER = "/var/lib/gpufleet/volumes"

_variable, _variable_schema = build_pattern_annotations(
    r"[A-Za-z_][A-Za-z0-9_]*", "a variable's name like HF_HOME"
)
# As engines read a reference: a registry in any case, a name in lower case, a tag, a digest (distribution/reference).
_image, _image_schema = build_pattern_annotations(
    r"([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]{1,5})?/)?[a-z0-9]+([._/-]+[a-z0-9]+)*"
    r"(:[A-Za-z0-9_][A-Za-z0-9._-]{0,127})?(@sha256:[0-9a-f]{64})?",
    "an image like quay.io/team/server:1.2@sha256:…, its name in lower case",
)
_user, _user_schema = build_pattern_annotations(
    r"[a-z0-9_-]+(:[a-z0-9_-]+)?", "a user, or user:group, by name or number"
)
_OCTET = r"(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
_address, _address_schema = build_pattern_annotations(
    rf"{_OCTET}(\.{_OCTET}){{3}}", "an IPv4 address like 127.0.0.1"
)
Variable = Annotated[str, _variable, _variable_schema]


def _check_single_line(value: str) -> str:
    if not value.isprintable():
        raise build_spec_error(f"is {value!r}", "give one line without control characters")
    return value


SingleLine = Annotated[str, AfterValidator(_check_single_line)]


def _check_gpus(value: object) -> object:
    if value in ("all", "none") or (type(value) is int and 1 <= value <= MAX_CARDS):
        return value
    if (
        isinstance(value, list | tuple)
        and value
        and all(type(item) is int and 0 <= item < MAX_CARDS for item in value)
    ):
        if len(set(value)) == len(value):
            return tuple(value)
        raise build_spec_error(f"{list(value)} names a card twice", "name each card once")
    raise build_spec_error(
        f"is {value!r}", "give all, none, a number of cards, or a list of cards like [0, 1]"
    )


Gpus = Annotated[
    Literal["all", "none"] | int | tuple[int, ...],
    BeforeValidator(_check_gpus),
    WithJsonSchema(
        {
            "description": "all, none, how many cards, or which ones by number",
            "anyOf": [
                {"enum": ["all", "none"]},
                {"type": "integer", "minimum": 1, "maximum": MAX_CARDS},
                {
                    "type": "array",
                    "items": {"type": "integer", "minimum": 0, "maximum": MAX_CARDS - 1},
                    "minItems": 1,
                    "uniqueItems": True,
                },
            ],
        }
    ),
]


class ApplicationVolume(FrozenModel):
    """A folder for data that outlives containers: nvme on the node's own drives.

    ssd is on the boot disk of a machine that we own, and on a disk of its own in a cloud.
    """

    name: Name
    size_gib: Annotated[StrictInt, Field(ge=1, le=65536)]
    kind: Literal["nvme", "ssd"] = "ssd"

    def folder(self, scratch_folder: str) -> str:
        """Return where the volume is on its node; ``scratch_folder`` is where the local drives are mounted."""
        return f"{scratch_folder if self.kind == 'nvme' else VOLUMES_FOLDER}/{self.name}"


class ContainerMount(FrozenModel):
    """A volume, or a folder of the node, mounted into a container."""

    volume: Name | None = None
    source: HostPath | None = None
    target: HostPath
    read_only: bool = False

    @model_validator(mode="after")
    def _check_one_source(self) -> Self:
        if (self.volume is None) == (self.source is None):
            raise build_spec_error(
                "a mount needs exactly one of volume and source",
                "set volume, or set source to a folder of the node",
            )
        return self


class PortMapping(FrozenModel):
    """A port of the node that leads to one of a container. Written short: 8000, or "80:8000/udp"."""

    host: Port
    container: Port
    protocol: Literal["tcp", "udp"] = "tcp"
    address: Annotated[
        Annotated[str, _address, _address_schema] | None,
        Field(
            description="the node's address that the port listens on; a loopback address opens no firewall port"
        ),
    ] = None

    @property
    def is_loopback_only(self) -> bool:
        """True if only the node itself reaches it."""
        return (self.address or "").startswith("127.")

    @model_validator(mode="before")
    @classmethod
    def _expand_short_form(cls, data: Any) -> Any:
        if type(data) is int:
            return {"host": data, "container": data}
        if isinstance(data, dict):
            return {"container": data["host"], **data} if "host" in data else data
        match = (
            re.fullmatch(r"(\d{1,5})(?::(\d{1,5}))?(?:/(tcp|udp))?", data) if isinstance(data, str) else None
        )
        if match is None:
            raise build_spec_error(f"is {data!r}", "give a port like 8000, or '80:8000', node first")
        host, container, protocol = match.groups()
        return {"host": int(host), "container": int(container or host), "protocol": protocol or "tcp"}


_PORT_SHORT = [
    {"type": "integer", "minimum": 1, "maximum": 65535},
    {"type": "string", "pattern": r"^\d{1,5}(:\d{1,5})?(/(tcp|udp))?$"},
]
PORT_SCHEMA = {
    "description": "a port, 'node:container', or its parts",
    "anyOf": [
        *_PORT_SHORT,
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["host"],
            "properties": {
                "host": _PORT_SHORT[0],
                "container": _PORT_SHORT[0],
                "protocol": {"enum": ["tcp", "udp"]},
                "address": {"type": "string", "pattern": rf"^{_OCTET}(\.{_OCTET}){{3}}$"},
            },
        },
    ],
}


class SecretReference(FrozenModel):
    """A secret by its name only: the value is on the node or in podman's store, never in the spec."""

    name: Name
    kind: Annotated[
        Literal["file", "env_file", "podman"],
        Field(
            description="file: mounted from /etc/gpufleet/secrets/NAME; env_file: that file's VAR=value lines; "
            "podman: of podman's own store"
        ),
    ] = "file"
    env: Annotated[
        Variable | None,
        Field(
            description="podman: the environment variable for the secret; without env, the secret is mounted as a file"
        ),
    ] = None
    target: HostPath | None = None

    @model_validator(mode="after")
    def _check_fields_of_kind(self) -> Self:
        if self.env is not None and self.kind != "podman":
            raise build_spec_error(
                f"env needs kind podman, not {self.kind}", "set kind: podman, or kind: env_file"
            )
        if self.target is not None and (self.kind == "env_file" or self.env is not None):
            raise build_spec_error(
                "target is only for a secret that is mounted as a file; this secret is a variable",
                "remove target",
            )
        return self


class ContainerHealthCheck(FrozenModel):
    """A container's health check; an unhealthy container is killed and restarted."""

    command: Annotated[
        SingleLine,
        Field(min_length=1, description="a shell command inside the container; exit code 0 is healthy"),
    ]
    interval_seconds: Seconds = 30
    timeout_seconds: Seconds = 10
    retries: Annotated[StrictInt, Field(ge=1, le=100)] = 3
    start_seconds: Annotated[StrictInt, Field(ge=0, le=86400, description="grace period after start")] = 60


class Container(FrozenModel):
    """One container that the node runs, as a systemd service of its name."""

    image: Annotated[str, _image, _image_schema]
    name: Name | None = None
    gpus: Gpus = "none"
    ports: Annotated[tuple[PortMapping, ...], WithJsonSchema({"type": "array", "items": PORT_SCHEMA})] = ()
    command: tuple[SingleLine, ...] = ()
    env: dict[Variable, SingleLine] = Field(default_factory=dict)
    secrets: tuple[SecretReference, ...] = ()
    mounts: tuple[ContainerMount, ...] = ()
    user: Annotated[str, _user, _user_schema] | None = None
    read_only: Annotated[bool, Field(description="the container cannot write to its own file system")] = False
    network: Literal["bridge", "host", "none"] = "bridge"
    shm_gib: (
        Annotated[StrictInt, Field(ge=1, le=4096, description="size of /dev/shm, which NCCL needs")] | None
    ) = None
    restart: Literal["always", "on-failure", "never"] = "always"
    stop_seconds: Annotated[StrictInt, Field(ge=1, le=3600)] = 30
    health: ContainerHealthCheck | None = None
    depends: Annotated[tuple[Name, ...], Field(description="containers that start before this one")] = ()

    @property
    def effective_name(self) -> str:
        """Return the name; without one, the last part of the image's name."""
        image_name = self.image.partition("@")[0].rpartition("/")[2].partition(":")[0]
        return self.name or (
            re.sub(r"[^a-z0-9-]+", "-", image_name.lower()).strip("-")[:40].rstrip("-") or "app"
        )

    @property
    def has_image_digest(self) -> bool:
        """True if the image has a digest, so that it never changes."""
        return "@sha256:" in self.image


class Application(FrozenModel):
    """Step three: what runs on the node."""

    volumes: tuple[ApplicationVolume, ...] = ()
    containers: tuple[Container, ...] = ()
    units: Annotated[
        Literal["auto", "quadlet", "plain"],
        Field(
            description="quadlet: podman generates the units; plain: gpufleet does; auto: quadlet if podman supports it"
        ),
    ] = "auto"
