"""A compose or quadlet file of a template: read within the project, and what its containers need of a node.

The file goes to the node as it is, and the engine's own program checks it there. Only what rules on templates compare
is parsed here; a value that a variable decides (``${PORT}:80``) counts as not given.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from gpufleet.boundary import DocumentLimits, decode_yaml, make_printable, read_text
from gpufleet.errors import InputError
from gpufleet.fleet.frozen_model import build_pattern_annotations

LIMITS = DocumentLimits(bytes=64 * 1024, values=10_000)
QUADLET_SECTIONS = {
    ".container": "Container",
    ".pod": "Pod",
    ".network": "Network",
    ".volume": "Volume",
}  # podman-systemd.unit(5)
COMPOSE_NAMES = ("compose", "docker-compose")  # such a file is named after its folder, as by docker compose
_CDI_GPU = re.compile(r"\b(?:nvidia|amd)\.com/gpu=(\w+)")
_PORT = re.compile(r"(?:(\d+(?:\.\d+){3}|\[[0-9A-Fa-f:]+\]):)?(\d{1,5}):\d{1,5}(?:/(tcp|udp))?")
_ALL_ADDRESSES = ("0.0.0.0", "[::]")  # noqa: S104 - compared, not listened on

_path, _path_schema = build_pattern_annotations(
    r"([A-Za-z0-9_][A-Za-z0-9_.-]*/)*[A-Za-z0-9_][A-Za-z0-9_.-]*\.(ya?ml|container|pod|network|volume)",
    "a file of the project like containers/llm/compose.yaml or containers/llm.container",
)
ContainerFilePath = Annotated[str, _path, _path_schema]


@dataclass(frozen=True)
class PublishedPort:
    """A port of the node that leads to a container; without an address on all of the node's."""

    number: int
    protocol: str
    address: str

    def clashes_with(self, other: PublishedPort) -> bool:
        """Return whether both ports cannot be listened on at once."""
        shares_address = not self.address or not other.address or self.address == other.address
        return (self.number, self.protocol) == (other.number, other.protocol) and shares_address


@dataclass(frozen=True)
class DeclaredContainer:
    """What a file declares of one container. ``gpu_count`` is how many GPUs its node must have at least."""

    name: str
    image: str
    ports: tuple[PublishedPort, ...]
    gpu_count: int
    environment: Mapping[str, str]


@dataclass(frozen=True)
class ContainerFile:
    """A file by its path in the project, its text and its containers."""

    path: str
    text: str
    containers: tuple[DeclaredContainer, ...]


def required_engine(path: str) -> Literal["podman", "docker"]:
    """Return the engine that runs a file: podman makes services of quadlets, docker has the compose plugin."""
    return "podman" if PurePosixPath(path).suffix in QUADLET_SECTIONS else "docker"


def installed_name(path: str) -> str:
    """Return a file's name on its node: a quadlet's own, and NAME.yaml for the compose project NAME."""
    file = PurePosixPath(path)
    if file.suffix in QUADLET_SECTIONS:
        return file.name
    return f"{file.parent.name if file.stem in COMPOSE_NAMES and file.parent.name else file.stem}.yaml"


def load_container_file(path: str, root: Path) -> ContainerFile:
    """Return a file of the project; what is wrong with it is one line. No link leads out of the project."""
    place = Path(os.path.realpath(root / path))
    if not place.is_relative_to(os.path.realpath(root)):
        raise InputError(
            "is a link out of the project", where=path, remedy="put the file itself into the project"
        )
    return parse_container_file(path, read_text(place, LIMITS, path, follow_symlinks=False))


def parse_container_file(path: str, text: str) -> ContainerFile:
    """Return what a file declares; its suffix says whether it is a quadlet or a compose file."""
    parse = _parse_quadlet if required_engine(path) == "podman" else _parse_compose
    return ContainerFile(path, text, tuple(parse(path, text)))


def _parse_compose(path: str, text: str) -> Iterator[DeclaredContainer]:
    services = _look_up(decode_yaml(text, path, LIMITS), "services")
    if not isinstance(services, Mapping) or not services:
        raise InputError("has no services", where=path, remedy="give a compose file: compose-spec.io")
    for name, service in services.items():
        image = _look_up(service, "image")
        if not isinstance(image, str):
            raise InputError(
                "has no image",
                where=path,
                key=make_printable(f"services.{name}"),
                remedy="give its image: only this file is copied to the node, nothing is built there",
            )
        ports = [] if service.get("network_mode") == "host" else _as_list(service.get("ports"))
        yield DeclaredContainer(
            str(name),
            image,
            tuple(_read_ports(map(_format_long_port, ports))),
            max(_list_service_gpus(service), default=0),
            _read_environment(service.get("environment")),
        )


def _list_service_gpus(service: Mapping[str, Any]) -> Iterator[int]:
    """Yield how many GPUs a node must have for each request of a service, by any of compose's ways to ask."""
    reserved = _as_list(_look_up(service, "deploy", "resources", "reservations", "devices"))
    requests = [request for request in reserved if "gpu" in str(_look_up(request, "capabilities"))]
    for request in requests + _as_list(service.get("gpus")):
        count, ids = _look_up(request, "count"), _as_list(_look_up(request, "device_ids"))
        yield count if type(count) is int and count > 0 else _count_up_to(map(str, ids))
    if service.get("gpus") == "all" or service.get("runtime") == "nvidia":
        yield 1
    yield from (
        _count_up_to([device]) for device in _find_cdi_gpus(map(str, _as_list(service.get("devices"))))
    )


def _format_long_port(port: Any) -> str:
    """Return a port of the long form as the short form has it."""
    if not isinstance(port, Mapping):
        return str(port)
    address = str(port.get("host_ip") or "")
    prefix = f"[{address}]:" if ":" in address else f"{address}:" if address else ""
    return f"{prefix}{port.get('published')}:{port.get('target')}/{port.get('protocol', 'tcp')}"


def _read_environment(value: Any) -> dict[str, str]:
    if isinstance(value, Mapping):
        return {str(name): str(text) for name, text in value.items() if text is not None}
    pairs = (str(entry).partition("=") for entry in _as_list(value))
    return {name: text for name, _, text in pairs}


def _parse_quadlet(path: str, text: str) -> Iterator[DeclaredContainer]:
    file = PurePosixPath(path)
    section, sections = QUADLET_SECTIONS[file.suffix], _read_sections(path, text)
    if section not in sections:
        raise InputError(
            f"has no section [{section}]", where=path, remedy="give a quadlet: podman-systemd.unit(5)"
        )
    if section != "Container":
        return
    values: dict[str, list[str]] = {}
    for key, value in sections[section]:
        values.setdefault(key, []).append(value)
    if not any(values.get("Image", ())):
        raise InputError("has no Image=", where=path, key=f"[{section}]", remedy="give the container's image")
    is_on_host_network = "host" in values.get("Network", ())
    arguments = [*values.get("AddDevice", ()), *values.get("PodmanArgs", ())]
    gpus = [_count_up_to([device]) for device in _find_cdi_gpus(arguments)]
    gpus += [1 for argument in arguments if "--gpus" in argument]
    yield DeclaredContainer(
        file.stem,
        values["Image"][-1],
        () if is_on_host_network else tuple(_read_ports(values.get("PublishPort", ()))),
        max(gpus, default=0),
        _read_environment([pair for line in values.get("Environment", ()) for pair in _split(path, line)]),
    )


def _read_sections(path: str, text: str) -> dict[str, list[tuple[str, str]]]:
    """Return the keys and values of a unit file by section (systemd.syntax(7)): a key may occur several times."""
    sections: dict[str, list[tuple[str, str]]] = {}
    entries, continued = None, ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if line.startswith(("#", ";")):
            continue
        if line.endswith("\\"):
            continued += f"{line[:-1]} "
            continue
        line, continued = (continued + line).strip(), ""
        if line.startswith("[") and line.endswith("]"):
            entries = sections.setdefault(line[1:-1], [])
        elif line and (entries is None or "=" not in line):
            raise InputError(
                f"{make_printable(line, 40)!r} is not KEY=VALUE in a [section]",
                where=f"{path}:{number}",
                remedy="correct that line",
            )
        elif line and entries is not None:
            key, _, value = line.partition("=")
            entries.append((key.strip(), value.strip()))
    return sections


def _split(path: str, line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        raise InputError(
            "has a quotation mark without its other half", where=path, key="Environment", remedy="add it"
        ) from None


def _read_ports(texts: Iterable[str]) -> Iterator[PublishedPort]:
    """Yield the ports that are published under a number; ranges, variables and random ports are left out."""
    for match in filter(None, map(_PORT.fullmatch, texts)):
        address = match[1] or ""
        yield PublishedPort(int(match[2]), match[3] or "tcp", "" if address in _ALL_ADDRESSES else address)


def _find_cdi_gpus(texts: Iterable[str]) -> list[str]:
    return [name for text in texts for name in _CDI_GPU.findall(text)]


def _count_up_to(names: Iterable[str]) -> int:
    """Return how many GPUs a node has if it has these: by number the highest plus one, one for any other name."""
    return max((int(name) + 1 if name.isdecimal() and len(name) < 4 else 1 for name in names), default=1)  # noqa: PLR2004


def _look_up(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
