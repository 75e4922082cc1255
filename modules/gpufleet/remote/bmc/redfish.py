"""Redfish through sushy, the client of OpenStack Ironic. A BMC's answers cannot lead to another host."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address
from typing import Any

import requests
import sushy
from requests.adapters import HTTPAdapter
from sushy import auth, connector
from sushy import exceptions as sushy_exceptions
from sushy.resources.constants import ResetType

from gpufleet.boundary import Json, decode_json_object
from gpufleet.errors import InputError
from gpufleet.fleet import Bmc
from gpufleet.remote.bmc.machine import MachineIdentity
from gpufleet.remote.bmc.model import PowerRequest, PowerState
from gpufleet.remote.bmc.sequence import BmcBusyError, BmcError, BmcUnavailableError, Order, SentOrder

MAX_ANSWER_BYTES = 1 << 20
MAX_SYSTEMS = 64
CONNECT_SECONDS = 10
SERVER_ERROR = 500
BUSY_STATUSES = (409, 429, 503)  # Redfish specification (DSP0266), status codes: not carried out
READ_SECONDS = 30

STATES: dict[object, PowerState] = {
    "On": "on",
    "Off": "off",
    "PoweringOn": "changing",
    "PoweringOff": "changing",
    "Paused": "paused",
}
# The first that the system allows is sent.
RESETS: dict[Order, tuple[ResetType, ...]] = {
    "on": (ResetType.ON, ResetType.FORCE_ON),
    "resume": (ResetType.RESUME, ResetType.ON),
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
            server_side_retries=1,  # one attempt to connect; 0 would be three
            server_side_retries_delay=1,
        )
        self._session.trust_env = False  # no proxy, no .netrc, no other authorities
        self._session.adapters.clear()
        self._session.mount("https://", BoundedAdapter(origin, bmc.certificate_sha256))

    def check_retry_on_exception(self, exception_msg: object) -> bool:  # noqa: ARG002 - the library's signature
        """Return False: sushy would send an order again that a busy iLO or iDRAC refused; the sequence decides that."""
        return False


class RedfishClient:
    """One system of one Redfish service."""

    def __init__(self, request: PowerRequest) -> None:
        login = auth.SessionOrBasicAuth(
            username=request.user.get_secret_value(), password=request.password.get_secret_value()
        )
        self._connector = BoundedConnector(request.bmc)
        self._root = sushy.Sushy(build_origin(request.bmc), auth=login, connector=self._connector)
        self._login = login
        self._path = self._find_system_path(request.bmc.system)
        self._system = self._root.get_system(self._path)

    def close(self) -> None:
        """End the session on the BMC: it has few of them."""
        self._login.close()

    def read_identity(self) -> MachineIdentity:
        values = self._system.json
        fields = {
            "manufacturer": "Manufacturer",
            "model": "Model",
            "serial": "SerialNumber",
            "sku": "SKU",
            "uuid": "UUID",
        }
        return MachineIdentity.from_values(
            **{name: values.get(key) for name, key in fields.items()},
            chassis_serial=self._read_chassis_serial(values),
        )

    def _read_chassis_serial(self, system: Json) -> object:
        """Return the serial of the first chassis that the system names; None if it cannot be read."""
        links = system.get("Links")
        chassis = links.get("Chassis") if isinstance(links, dict) else None
        first = chassis[0] if isinstance(chassis, list) and chassis else None
        path = first.get("@odata.id") if isinstance(first, dict) else None
        try:
            return self._read_object(path).get("SerialNumber") if isinstance(path, str) else None
        except BmcError:
            return None

    def read_power_state(self) -> PowerState:
        values = self._read_object(self._path)
        return STATES.get(str(values.get("PowerState")), "unknown")

    def _read_object(self, path: str) -> Json:
        """Return a resource; BmcUnavailableError if the answer is an error, or is not one."""
        try:
            return decode_json_object(self._connector.get(path).content, "BMC")
        except InputError:
            raise BmcUnavailableError("the BMC's answer is empty or not JSON") from None
        except sushy_exceptions.SushyError as error:
            if is_lasting(error):
                raise BmcError(describe_error(error)) from None
            raise BmcUnavailableError(describe_error(error)) from None

    def send_order(self, order: Order) -> SentOrder:
        try:
            allowed = self._system.get_allowed_reset_system_values()
        except sushy_exceptions.SushyError as error:
            raise BmcBusyError(f"the BMC does not list its orders: {describe_error(error)}") from None
        reset = next((reset for reset in RESETS[order] if reset in allowed), None)
        if reset is None:
            offered = ", ".join(sorted(value.value for value in allowed)) or "none"
            raise BmcError(f"the BMC does not offer {RESETS[order][0].value}; it offers {offered}")
        name = str(reset.value)
        try:
            self._system.reset_system(reset)
        except sushy_exceptions.HTTPError as error:
            problem = f"the BMC refused {name}: {describe_error(error)}"
            if is_busy(error):
                raise BmcBusyError(problem) from None
            if error.status_code >= SERVER_ERROR:  # it may have carried the order out, and failed to say so
                return SentOrder(name, f"and answered with an error: {describe_error(error)}")
            raise BmcError(problem) from None
        except sushy_exceptions.SushyError as error:
            if is_unsent(error):
                raise BmcBusyError(f"{name} was not sent: {describe_error(error)}") from None
            return SentOrder(name, "and its answer was lost")
        return SentOrder(name)

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
    if isinstance(error, sushy_exceptions.HTTPError):
        return f"HTTP {error.status_code}{_describe_message(error)}"
    return text


def _describe_message(error: sushy_exceptions.HTTPError) -> str:
    """Return the first message of an error, with its id and what it names; empty if the BMC sent none."""
    messages = error.extended_info if isinstance(error.extended_info, list) else [error.extended_info]
    first = messages[0] if messages and isinstance(messages[0], dict) else {}
    identifier = str(first.get("MessageId") or first.get("MessageID") or "").rpartition(".")[2]
    arguments = first.get("MessageArgs")
    text = first.get("Message") or (", ".join(map(str, arguments[:4])) if isinstance(arguments, list) else "")
    parts = [
        str(part)[:160] for part in (identifier, text or (error.detail if not identifier else "")) if part
    ]
    return f": {': '.join(parts)}" if parts else ""


def is_busy(error: sushy_exceptions.HTTPError) -> bool:
    """Return True if the BMC did not carry out an order because it was not ready: a later one may succeed."""
    text = str(error)
    if error.status_code in BUSY_STATUSES:
        return True
    # iDRAC: its data sources are not available yet. iLO: the machine is between two states.
    return "SYS518" in text or ("iLO" in text and "InvalidOperationForSystemState" in text)


def is_unsent(error: Exception) -> bool:
    """Return True if no connection was made: the BMC cannot have received the request."""
    text = str(error)
    return (
        "Connection refused" in text
        or "ConnectTimeout" in text
        or "Failed to establish a new connection" in text
    )


def is_lasting(error: Exception) -> bool:
    """Return True if another attempt has the same end: another certificate, another host, an endless answer."""
    text = str(error)
    signs = (
        "CERTIFICATE_VERIFY_FAILED",
        "Fingerprints did not match",
        "another host",
        "a redirect",
        "too large",
    )
    return any(sign in text for sign in signs)
