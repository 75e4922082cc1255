"""The sequence of orders for an action, the same for each protocol: pure but for the client and the clock."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal, Protocol

from gpufleet.remote.bmc.model import LONGEST_TEXT, SETTLE_SECONDS, PowerReport, PowerRequest, PowerState

Order = Literal["on", "shutdown", "force_off", "force_restart"]


class BmcError(Exception):
    """What a BMC refused, or failed to do, in one line."""


@dataclass(frozen=True)
class MachineIdentity:
    """Who the machine behind a BMC is; an empty text is unknown."""

    manufacturer: str = ""
    model: str = ""
    serial: str = ""

    @classmethod
    def from_values(cls, manufacturer: object, model: object, serial: object) -> MachineIdentity:
        """Return an identity from what a BMC sent, which may be anything."""
        values = (manufacturer, model, serial)
        return cls(*(value.strip()[:LONGEST_TEXT] if isinstance(value, str) else "" for value in values))


class BmcClient(Protocol):
    """What a protocol can do. ``send_order`` returns the protocol's name of the order; BmcError if it is refused."""

    def read_identity(self) -> MachineIdentity: ...

    def read_power_state(self) -> PowerState: ...

    def send_order(self, order: Order) -> str: ...


class PowerSequence:
    """Carries out one request with one client."""

    def __init__(self, client: BmcClient, request: PowerRequest, interval_seconds: float = 1) -> None:
        self.client = client
        self.request = request
        self.interval_seconds = interval_seconds
        self.orders: list[str] = []

    def run(self) -> PowerReport:
        """Return what was done; a refused or ineffective order is the report's problem, not an exception."""
        identity = self.client.read_identity()
        was = self.client.read_power_state()
        expected = self.request.serial
        is_other = bool(expected and identity.serial and expected.casefold() != identity.serial.casefold())
        problem = ""
        if not is_other and self.request.action != "read":
            try:
                self._switch(was)
            except BmcError as error:
                problem = str(error)
        return PowerReport(
            was=was,
            state=self.client.read_power_state() if self.orders else was,
            orders=tuple(self.orders),
            manufacturer=identity.manufacturer,
            model=identity.model,
            serial=identity.serial,
            is_other_machine=is_other,
            problem=problem[:500],
        )

    def _switch(self, was: PowerState) -> None:
        if was == "changing":
            was = self._wait_until_settled()
        if self.request.action == "on":
            if was != "on":
                self._power_on()
        elif was == "off" or self._shut_down():
            if self.request.action == "cycle":
                self._power_on()
        elif not self.request.force:
            raise BmcError(f"the system did not shut down within {self.request.shutdown_seconds} seconds")
        elif self.request.action == "cycle":
            self._send("force_restart")
            self._wait_for("on", SETTLE_SECONDS)
        else:
            self._send("force_off")
            self._wait_for("off", SETTLE_SECONDS)

    def _power_on(self) -> None:
        self._send("on")
        self._wait_for("on", SETTLE_SECONDS)

    def _shut_down(self) -> bool:
        """Request a shutdown of the operating system; True if the machine is off in time."""
        try:
            self._send("shutdown")
            self._wait_for("off", self.request.shutdown_seconds)
        except BmcError:
            return False
        return True

    def _send(self, order: Order) -> None:
        self.orders.append(self.client.send_order(order))

    def _wait_for(self, state: PowerState, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (current := self.client.read_power_state()) != state:
            if time.monotonic() >= deadline:
                raise BmcError(f"the BMC still reports {current} {seconds:g} seconds after {self.orders[-1]}")
            time.sleep(self.interval_seconds)

    def _wait_until_settled(self) -> PowerState:
        deadline = time.monotonic() + SETTLE_SECONDS
        while (current := self.client.read_power_state()) == "changing":
            if time.monotonic() >= deadline:
                raise BmcError(f"the power state is still changing after {SETTLE_SECONDS} seconds")
            time.sleep(self.interval_seconds)
        return current
