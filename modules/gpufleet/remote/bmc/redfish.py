"""Redfish through sushy, the client of OpenStack Ironic. A BMC's answers cannot lead to another host."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Any

import requests
import sushy
from requests.adapters import HTTPAdapter
from sushy import auth, connector
from sushy import exceptions as sushy_exceptions
from sushy.resources.constants import PowerState as RedfishState
from sushy.resources.constants import ResetType

from gpufleet.fleet import Bmc
from gpufleet.remote.bmc.model import PowerRequest, PowerState
from gpufleet.remote.bmc.sequence import BmcError, MachineIdentity, Order

MAX_ANSWER_BYTES = 1 << 20
MAX_SYSTEMS = 64
CONNECT_SECONDS = 10
READ_SECONDS = 30

STATES: dict[object, PowerState] = {
    RedfishState.ON: "on",
    RedfishState.OFF: "off",
    RedfishState.POWERING_ON: "changing",
    RedfishState.POWERING_OFF: "changing",
}
# The first that the system allows is sent.
RESETS: dict[Order, tuple[ResetType, ...]] = {
    "on": (ResetType.ON, ResetType.FORCE_ON),
    "shutdown": (ResetType.GRACEFUL_SHUTDOWN,),
    "force_off": (ResetType.FORCE_OFF,),
    "force_restart": (ResetType.FORCE_RESTART, ResetType.POWER_CYCLE),
}


def build_origin(bmc: Bmc) -> str:
    """Return the URL of a BMC without a path. The address is an IP address or a host name, nothing else."""
    try:
        host = f"[{bmc.address}]" if isinstance(ip_address(bmc.address), IPv6Address) else bmc.address
    except ValueError:
        host = bmc.address
    return f"https://{host.lower()}:{bmc.port or 443}"


class BoundedAdapter(HTTPAdapter):
    """Sends requests to one BMC only, follows no redirect and reads answers of limited size."""

    def __init__(self, origin: str, certificate_sha256: str | None) -> None:
        self._origin = origin
        self._certificate_sha256 = certificate_sha256
        super().__init__()

    def init_poolmanager(self, *args: Any, **options: Any) -> None:
        if self._certificate_sha256:
            options["assert_fingerprint"] = self._certificate_sha256
        super().init_poolmanager(*args, **options)

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override,unused-ignore]  # same options, passed on
        # requests leaves the default port out of what it prepares.
        base = self._origin.removesuffix(":443")
        if not (request.url or "").startswith((f"{self._origin}/", f"{base}/")):
            raise requests.exceptions.InvalidURL("the BMC refers to another host")
        response: requests.Response = super().send(request, **{**options, "stream": True, "proxies": {}})
        if response.is_redirect:
            raise requests.exceptions.InvalidURL("the BMC answered with a redirect")
        content = response.raw.read(MAX_ANSWER_BYTES + 1, decode_content=True)
        if len(content) > MAX_ANSWER_BYTES:
            raise requests.exceptions.ContentDecodingError("the BMC's answer is too large")
        response._content = content  # noqa: SLF001 - what requests itself sets when it reads without a limit
        response._content_consumed = True  # type: ignore[attr-defined,unused-ignore] # noqa: SLF001
        return response


class BoundedConnector(connector.Connector):  # type: ignore[misc]  # the library has no types
    """sushy's connector with a session that can only reach the BMC."""

    def __init__(self, bmc: Bmc) -> None:
        origin = build_origin(bmc)
        # With a fingerprint the certificate itself is compared; an authority has nothing to add.
        super().__init__(
            origin,
            verify=bmc.ca_file or False,
            default_request_timeout=READ_SECONDS,
            connect_timeout=CONNECT_SECONDS,
            server_side_retries=1,  # one attempt: an order must not be sent twice
            server_side_retries_delay=1,
        )
        self._session.trust_env = False  # no proxy, no .netrc, no other authorities
        self._session.adapters.clear()
        self._session.mount("https://", BoundedAdapter(origin, bmc.certificate_sha256))


class RedfishClient:
    """One system of one Redfish service."""

    def __init__(self, request: PowerRequest) -> None:
        login = auth.SessionOrBasicAuth(
            username=request.user.get_secret_value(), password=request.password.get_secret_value()
        )
        self._root = sushy.Sushy(
            build_origin(request.bmc), auth=login, connector=BoundedConnector(request.bmc)
        )
        self._login = login
        self._system = self._root.get_system(self._find_system_path(request.bmc.system))

    def close(self) -> None:
        """End the session on the BMC: it has few of them."""
        self._login.close()

    def read_identity(self) -> MachineIdentity:
        system = self._system
        return MachineIdentity.from_values(system.manufacturer, system.model, system.serial_number)

    def read_power_state(self) -> PowerState:
        self._system.invalidate()
        self._system.refresh(force=False)
        return STATES.get(self._system.power_state, "unknown")

    def send_order(self, order: Order) -> str:
        allowed = self._system.get_allowed_reset_system_values()
        reset = next((reset for reset in RESETS[order] if reset in allowed), None)
        if reset is None:
            offered = ", ".join(sorted(value.value for value in allowed)) or "none"
            raise BmcError(f"the BMC does not offer {RESETS[order][0].value}; it offers {offered}")
        try:
            self._system.reset_system(reset)
        except sushy_exceptions.SushyError as error:
            raise BmcError(f"the BMC refused {reset.value}: {describe_error(error)}") from None
        return str(reset.value)

    def _find_system_path(self, name: str | None) -> str:
        paths = [str(path) for path in self._root.get_system_collection().members_identities][:MAX_SYSTEMS]
        systems = {path.rstrip("/").rpartition("/")[2]: path for path in paths}
        if name is None and len(systems) == 1:
            return paths[0]
        if name in systems:
            return systems[name]
        listed = ", ".join(list(systems)[:8]) or "none"
        remedy = f"system {name!r} is not among them" if name else "set bmc.system to one of them"
        raise BmcError(f"the BMC lists {len(systems)} systems ({listed}): {remedy}")


def describe_error(error: Exception) -> str:
    """Return why a request failed, in few words."""
    if isinstance(error, sushy_exceptions.AccessError):
        return "the BMC refused user or password"
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text or "Fingerprints did not match" in text:
        return "the BMC's certificate is not the expected one"
    if "Connection refused" in text:
        return "nothing listens on the BMC's port"
    if "timed out" in text:
        return "the BMC does not answer"
    return text
