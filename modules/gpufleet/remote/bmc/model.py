"""What is requested of a BMC, and what it reported."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_serializer

from gpufleet.fleet import Bmc
from gpufleet.fleet.frozen_model import FrozenModel
from gpufleet.remote.bmc.machine import LONGEST_TEXT, Match, NodeIdentifiers

PowerAction = Literal["read", "on", "off", "cycle"]
PowerState = Literal["on", "off", "changing", "paused", "unknown"]

SETTLE_SECONDS = 60
"""Time that a BMC gets to carry out an order that does not depend on the operating system."""

ShortText = Annotated[str, Field(max_length=LONGEST_TEXT)]
LONGEST_PROBLEM = 500
Problem = Annotated[str, Field(max_length=LONGEST_PROBLEM)]


class PowerRequest(FrozenModel):
    """One action on one machine.

    ``off`` and ``cycle`` first request a shutdown of the operating system and wait ``shutdown_seconds``. ``force``
    permits to cut the power after that. If the BMC belongs to another machine than ``node``, nothing is switched; if
    they have no identifier in common, it is only switched on.
    """

    bmc: Bmc
    user: Annotated[SecretStr, Field(min_length=1, max_length=255)]
    password: Annotated[SecretStr, Field(min_length=1, max_length=255)]
    action: PowerAction = "read"
    node: NodeIdentifiers = NodeIdentifiers()
    force: bool = False
    shutdown_seconds: Annotated[int, Field(ge=0, le=3600)] = 300
    contact_seconds: Annotated[int, Field(ge=1, le=600)] = 60

    @property
    def limit_seconds(self) -> int:
        """Return the time after which the action is given up."""
        switching = {"read": 0, "on": 1, "off": 1, "cycle": 2}[self.action] * SETTLE_SECONDS
        waiting = self.shutdown_seconds if self.action in ("off", "cycle") else 0
        return self.contact_seconds + switching + waiting

    @field_serializer("user", "password", when_used="json")
    def _reveal(self, secret: SecretStr) -> str:
        return secret.get_secret_value()


class PowerReport(FrozenModel):
    """The power state before (``was``) and after, the orders that were sent in between, and who the machine is.

    ``problem`` is why the action was not carried out; empty if it was. ``notes`` are what else a person should know: an
    order without an answer, a machine that could not be identified.
    """

    was: PowerState = "unknown"
    state: PowerState = "unknown"
    orders: Annotated[tuple[ShortText, ...], Field(max_length=8)] = ()
    manufacturer: ShortText = ""
    model: ShortText = ""
    serial: ShortText = ""
    sku: ShortText = ""
    board_serial: ShortText = ""
    chassis_serial: ShortText = ""
    uuid: ShortText = ""
    guid: ShortText = ""
    match: Match = "not_compared"
    match_reason: ShortText = ""
    notes: Annotated[tuple[Problem, ...], Field(max_length=8)] = ()
    problem: Problem = ""

    @property
    def is_other_machine(self) -> bool:
        """True if the BMC belongs to another machine than the node."""
        return self.match == "other"
