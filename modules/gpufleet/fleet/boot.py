"""How the nodes of a rack boot for the first time: the ``boot`` section of a rack file."""

from __future__ import annotations

import re
import zoneinfo
from functools import cache
from ipaddress import IPv4Address
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from gpufleet.fleet.frozen_model import FrozenModel, Name, build_pattern_annotations, build_spec_error
from gpufleet.fleet.public_key import PublicKey

Medium = Literal["nvme", "netboot", "sd", "emmc"]
BootMode = Literal["sd", "network", "rpiboot", "usb", "nvme", "http", "stop", "restart"]

# NVMe first, read from the right as the bootloader does: 0xf416. The modes' digits are data of `gpufleet.nodes`.
DEFAULT_ORDER: dict[Medium, tuple[BootMode, ...]] = {
    "nvme": ("nvme", "sd", "usb", "restart"),
    "netboot": ("network", "restart"),
    "sd": ("sd", "usb", "restart"),
    "emmc": ("sd", "restart"),
}
MAX_BOOT_STEPS = 8  # digits of a 32-bit number

_sha256, _sha256_schema = build_pattern_annotations(
    r"[0-9a-f]{64}", "the 64 lowercase hexadecimal digits of the image's sha256"
)
_url, _url_schema = build_pattern_annotations(r"https://[^\s\"'\\]+", "an https:// address")
_locale, _locale_schema = build_pattern_annotations(
    r"[A-Za-z]{1,3}(_[A-Z]{2})?(\.UTF-8)?", "a locale like C.UTF-8 or de_DE.UTF-8"
)
_user, _user_schema = build_pattern_annotations(r"[a-z_][a-z0-9_-]{0,31}", "a Linux user name")
_folder, _folder_schema = build_pattern_annotations(r"/[A-Za-z0-9._/{}-]+", "an absolute path without spaces")
_interface, _interface_schema = build_pattern_annotations(
    r"[a-z][a-z0-9]{1,14}", "a network interface like eth0"
)
_domain, _domain_schema = build_pattern_annotations(
    r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*",
    "a domain like lab.example.org",
)


_list_time_zones = cache(zoneinfo.available_timezones)  # reads 600 files


def _check_time_zone(value: str) -> str:
    if value not in _list_time_zones():
        raise build_spec_error(
            f"{value!r} is not a time zone", "give a time zone like Etc/UTC or Europe/Berlin"
        )
    return value


class BootImage(FrozenModel):
    """The system image that is written to the node's disk, and which family's first boot it has."""

    url: Annotated[str, _url, _url_schema]
    sha256: Annotated[str, _sha256, _sha256_schema]
    family: Literal["raspios", "ubuntu", "debian"] = "raspios"


class FirstBootSshAccess(FrozenModel):
    """Who may log in after the first boot: keys given here, and those of a stack."""

    authorized_keys: tuple[PublicKey, ...] = ()
    stack: Name | None = None

    @model_validator(mode="after")
    def _check_login(self) -> Self:
        if not self.authorized_keys and self.stack is None:
            raise build_spec_error(
                "the nodes would have no SSH key",
                "give authorized_keys, or the stack with the ssh.authorized_keys to use",
            )
        return self


class NetbootServer(FrozenModel):
    """The server that nodes boot from over the network; ``{name}`` in nfs_root is the node's name."""

    server: IPv4Address
    prefix: Literal["serial", "mac"] = "serial"
    tftp_root: Annotated[str, _folder, _folder_schema] = "/srv/tftp"
    nfs_root: Annotated[str, _folder, _folder_schema] = "/srv/nfs/{name}"

    @model_validator(mode="after")
    def _check_nfs_root(self) -> Self:
        if "{name}" not in self.nfs_root or re.search(r"[{}]", self.nfs_root.replace("{name}", "")):
            raise build_spec_error(
                f"nfs_root {self.nfs_root!r} is the same folder for every node",
                "write it like /srv/nfs/{name}",
            )
        return self


class FirstBootSettings(FrozenModel):
    """The settings of a rack's first boot, for ``gpufleet nodes first-boot --format cloud-init``."""

    medium: Medium = "nvme"
    image: BootImage | None = None
    ssh: FirstBootSshAccess
    user: Annotated[str, _user, _user_schema] = "root"
    timezone: Annotated[str, AfterValidator(_check_time_zone)] = "Etc/UTC"
    locale: Annotated[str, _locale, _locale_schema] = "C.UTF-8"
    radio: Literal["off", "as_is"] = "off"
    interface: Annotated[
        Annotated[str, _interface, _interface_schema] | None,
        Field(description="the wired interface's name in the image; default: that of the image family"),
    ] = None
    gateway: IPv4Address | None = None
    dns: tuple[IPv4Address, ...] = ()
    search: tuple[Annotated[str, _domain, _domain_schema], ...] = ()
    order: tuple[BootMode, ...] = ()
    netboot: NetbootServer | None = None
    fan_unit: Literal["standard", "smart"] = "standard"
    pcie_generation: Annotated[int, Field(ge=2, le=3)] = 2
    host_keys: Literal["pregenerated", "console"] = "pregenerated"

    @property
    def boot_order(self) -> tuple[BootMode, ...]:
        """Return the boot modes in the order that they are tried."""
        return self.order or DEFAULT_ORDER[self.medium]

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        medium_mode: BootMode = {"nvme": "nvme", "netboot": "network", "sd": "sd", "emmc": "sd"}[self.medium]  # type: ignore[assignment]  # mypy widens a dict of literals to str
        order = self.boot_order
        if medium_mode not in order:
            raise build_spec_error(
                f"order does not contain {medium_mode}, but the medium is {self.medium}", f"add {medium_mode}"
            )
        if order[-1] not in ("restart", "stop") or len(order) > MAX_BOOT_STEPS:
            raise build_spec_error(
                "order must end with restart or stop and have at most 8 steps", "end boot.order with restart"
            )
        final_step = next((step for step in order[:-1] if step in ("restart", "stop")), None)
        if final_step:
            raise build_spec_error(
                f"nothing after {final_step} is ever tried", f"put {final_step} last, once"
            )
        if "rpiboot" in order[:-2]:
            raise build_spec_error(
                "rpiboot has no timeout: nothing after it is tried", "put rpiboot last before restart"
            )
        return self

    @model_validator(mode="after")
    def _check_netboot(self) -> Self:
        if self.medium == "netboot" and self.netboot is None:
            raise build_spec_error("medium netboot needs a server", "give netboot.server")
        return self
