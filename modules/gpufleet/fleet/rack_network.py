"""A subnet of a rack: the addresses of its slots."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, IPvAnyNetwork

from gpufleet.fleet.frozen_model import FrozenModel, StrictInt, build_spec_error


class RackNetwork(FrozenModel):
    """The rack's subnet: slot n has the host number ``slot_offset`` + n, unless its node says otherwise."""

    cidr: IPvAnyNetwork
    slot_offset: Annotated[StrictInt, Field(ge=0, le=1000)] = 10

    def address_of_slot(self, slot: int) -> str:
        """Return the address at ``slot + slot_offset`` in the network; a validation error beyond it."""
        number = self.slot_offset + slot
        if number >= self.cidr.num_addresses - 1:  # the last is the broadcast address
            raise build_spec_error(
                f"slot {slot} has no address in {self.cidr}", "widen network.cidr, or lower slot_offset"
            )
        return str(self.cidr[number])
