"""The order of things, for any protocol: identify the machine, switch it, read its state until it settles."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from gpufleet.remote.bmc.machine import MachineComparison, MachineIdentity, compare_machine
from gpufleet.remote.bmc.model import SETTLE_SECONDS, PowerReport, PowerRequest, PowerState

Order = Literal["on", "resume", "shutdown", "force_off", "force_restart"]

BUSY_ATTEMPTS = 3
"""How often an order is sent that the BMC refuses because it is busy, if a second one changes nothing (on, off)."""


class BmcError(Exception):
    """What a BMC refused, or failed to do, in one line."""


class BmcUnavailableError(BmcError):
    """A reading that failed or was empty, as after a change of power; the next one may succeed."""


class BmcBusyError(BmcError):
    """An order that was refused for now: the BMC did not carry it out."""


@dataclass(frozen=True)
class SentOrder:
    """An order under the protocol's name. ``doubt`` is why it is not known whether the BMC took it; empty if it did."""

    name: str
    doubt: str = ""


class BmcClient(Protocol):
    """What a protocol can do, and how it fails.

    ``read_power_state`` raises BmcUnavailableError if the state could not be read. ``send_order`` sends an order once;
    it raises BmcError if the order was refused, and returns one with a doubt if no clear answer came.
    """

    def read_identity(self) -> MachineIdentity: ...

    def read_power_state(self) -> PowerState: ...

    def send_order(self, order: Order) -> SentOrder: ...


class PowerSequence:
    """Carries out one request with one client.

    ``record`` gets a report before an order is sent: if this process is stopped for its time, its orders are known.
    """

    def __init__(
        self,
        client: BmcClient,
        request: PowerRequest,
        interval_seconds: float = 1,
        record: Callable[[PowerReport], None] | None = None,
    ) -> None:
        self.client = client
        self.request = request
        self.interval_seconds = interval_seconds
        self.record = record
        self.report = PowerReport()
        self.has_tried = False  # an order that was refused may show that the machine has changed since
        self.refused_shutdown = ""
        self.orders: list[str] = []
        self.doubts: dict[str, str] = {}

    def run(self) -> PowerReport:
        """Return what was done; a refused or ineffective order is the report's problem, not an exception."""
        identity = self.client.read_identity()
        was = self.client.read_power_state()
        comparison = compare_machine(self.request.node, identity)
        self.report = PowerReport(
            was=was,
            state=was,
            match=comparison.match,
            match_reason=comparison.reason,
            **vars(identity),
        )
        if self.request.action == "read" or not self._may_switch(comparison):
            return self.report
        problem = ""
        try:
            self._switch(was)
        except BmcError as error:
            problem = str(error)
        state = self._read_last_state() if self.has_tried else was
        notes = [f"{name} was sent, {doubt}" for name, doubt in self.doubts.items()]
        changes = {"state": state, "orders": tuple(self.orders[:8]), "problem": problem[:500]}
        return self.report.model_copy(update={**changes, "notes": tuple(note[:500] for note in notes[:8])})

    def _may_switch(self, comparison: MachineComparison) -> bool:
        """Return True if the machine may be switched: one that could not be identified only on."""
        if comparison.match == "unknown":
            return self.request.action == "on"
        return comparison.match != "other"

    def _switch(self, was: PowerState) -> None:
        if was == "changing":
            was = self._wait_until_settled()
        if self.request.action == "on":
            if was != "on":
                self._power_on("resume" if was == "paused" else "on")
        elif was == "off" or self._shut_down():
            if self.request.action == "cycle":
                self._power_on("on")
        elif not self.request.force:
            raise BmcError(
                f"the system was not shut down: {self.refused_shutdown}"
                if self.refused_shutdown
                else f"the system did not shut down within {self.request.shutdown_seconds} seconds"
            )
        elif self.request.action == "cycle":
            self._restart()
        else:
            self._send("force_off", "off")
            self._wait_for("off", SETTLE_SECONDS)

    def _power_on(self, order: Order) -> None:
        self._send(order, "on")
        self._wait_for("on", SETTLE_SECONDS)

    def _restart(self) -> None:
        """Restart without the operating system. Without an answer, only a state other than "on" shows that it did."""
        self._send("force_restart", None)
        name = self.orders[-1]
        if name in self.doubts and not self._has_left("on"):
            raise BmcError(
                f"whether the machine restarted is not known: {name} was sent, {self.doubts[name]}"
            )
        self._wait_for("on", SETTLE_SECONDS)

    def _shut_down(self) -> bool:
        """Request a shutdown of the operating system; True if the machine is off in time."""
        try:
            self._send("shutdown", "off")
        except BmcError as error:
            self.refused_shutdown = str(error)
            return False
        try:
            self._wait_for("off", self.request.shutdown_seconds)
        except BmcError:
            return False
        return True

    def _send(self, order: Order, target: PowerState | None) -> None:
        """Send an order. A refused one is done if the machine is in the target state already."""
        for attempt in range(1, BUSY_ATTEMPTS + 1):
            try:
                self._send_once(order)
            except BmcError as error:
                if target is not None and self._read_last_state() == target:
                    return
                is_last = attempt == BUSY_ATTEMPTS or order not in ("on", "force_off")
                if is_last or not isinstance(error, BmcBusyError):
                    raise
                time.sleep(3 * self.interval_seconds)
            else:
                return

    def _send_once(self, order: Order) -> None:
        self.has_tried = True
        self._record_orders((*self.orders, order))
        sent = self.client.send_order(order)
        self.orders.append(sent.name)
        if sent.doubt:
            self.doubts[sent.name] = sent.doubt
        self._record_orders(self.orders)

    def _record_orders(self, orders: Sequence[str]) -> None:
        if self.record:
            self.record(self.report.model_copy(update={"state": "unknown", "orders": tuple(orders[:8])}))

    def _read_last_state(self) -> PowerState:
        """Return the state, or "unknown" if it cannot be read now."""
        try:
            return self.client.read_power_state()
        except BmcError:
            return "unknown"

    def _wait_for(self, state: PowerState, seconds: float) -> None:
        """Read the state until it is the given one; readings that fail are repeated until the time is over."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                current, failure = self.client.read_power_state(), ""
            except BmcUnavailableError as error:
                current, failure = "unknown", str(error)
            if current == state:
                return
            if time.monotonic() >= deadline:
                last = self.orders[-1] if self.orders else "its refusal"
                doubt = f" ({last} was sent, {self.doubts[last]})" if last in self.doubts else ""
                found = (
                    f"its state cannot be read: {failure}" if failure else f"the BMC still reports {current}"
                )
                raise BmcError(f"{found} {seconds:g} seconds after {last}{doubt}")
            time.sleep(self.interval_seconds)

    def _has_left(self, state: PowerState) -> bool:
        """Return True once the machine is seen in another state than the given one, False if it is not in time."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            if self._read_last_state() not in (state, "unknown"):
                return True
            time.sleep(self.interval_seconds)
        return False

    def _wait_until_settled(self) -> PowerState:
        deadline = time.monotonic() + SETTLE_SECONDS
        while (current := self._read_last_state()) in ("changing", "unknown"):
            if time.monotonic() >= deadline:
                raise BmcError(f"the power state is still {current} after {SETTLE_SECONDS} seconds")
            time.sleep(self.interval_seconds)
        return current
