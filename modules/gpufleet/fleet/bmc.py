"""The management controller (BMC) of a server: its protocol, its address and how its certificate is verified.

Credentials are not part of it. They are variables of a run (role ``power``), so that no registry holds them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from gpufleet.boundary import is_identifier
from gpufleet.fleet.frozen_model import FrozenModel, StrictInt, build_pattern_annotations, build_spec_error
from gpufleet.fleet.rack_network import RackNetwork

Protocol = Literal["redfish", "ipmi"]

_file, _file_schema = build_pattern_annotations(r"/[A-Za-z0-9._/@+-]+", "an absolute path without spaces")
_sha256, _sha256_schema = build_pattern_annotations(
    r"[0-9a-f]{64}", "the 64 lowercase hexadecimal digits of the certificate's sha256"
)
_system, _system_schema = build_pattern_annotations(
    r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", "the id of one of the systems that the BMC lists"
)


def _check_address(value: str) -> str:
    if not is_identifier(value, "address") or "%" in value:
        raise build_spec_error(f"{value!r} is not an address", "give an IP address or a host name")
    return value


Address = Annotated[str, AfterValidator(_check_address)]
Port = Annotated[StrictInt, Field(ge=1, le=65535)]
CaFile = Annotated[str, _file, _file_schema]
CertificateSha256 = Annotated[str, _sha256, _sha256_schema]
SystemId = Annotated[str, _system, _system_schema]


class Bmc(FrozenModel):
    """One node's BMC. ``system`` selects one system of a Redfish service that lists several."""

    protocol: Protocol
    address: Address
    port: Port | None = None
    system: SystemId | None = None
    ca_file: CaFile | None = None
    certificate_sha256: CertificateSha256 | None = None

    @model_validator(mode="after")
    def _check_verification(self) -> Self:
        check_verification(self.protocol, self.address, self.ca_file, self.certificate_sha256, self.system)
        return self


def check_verification(
    protocol: Protocol, owner: str, ca_file: str | None, certificate_sha256: str | None, system: str | None
) -> None:
    """Raise unless Redfish is verified in exactly one way, and unless IPMI, which has no TLS, claims none."""
    if protocol == "ipmi":
        if ca_file or certificate_sha256 or system:
            raise build_spec_error(
                "IPMI has no certificates and only one system",
                "remove ca_file, certificate_sha256 and system, or set protocol: redfish",
            )
    elif (ca_file is None) == (certificate_sha256 is None):
        raise build_spec_error(
            f"the certificate of BMC {owner} must be verified in exactly one way",
            "give ca_file (its authority) or certificate_sha256 (its own certificate)",
        )


class NodeBmc(FrozenModel):
    """What a node's entry adds to, or replaces in, the rack's ``bmc``."""

    address: Address | None = None
    system: SystemId | None = None
    certificate_sha256: CertificateSha256 | None = None


def _discriminate(value: Any) -> str:
    return "none" if value == "none" else "inline"


NodeBmcOrNone = Annotated[
    Annotated[NodeBmc, Tag("inline")] | Annotated[Literal["none"], Tag("none")], Discriminator(_discriminate)
]
"""``none``: a server without a BMC, in a rack with them."""


class RackBmc(FrozenModel):
    """What the BMCs of a rack share; ``network`` gives each slot its BMC's address."""

    protocol: Protocol
    network: RackNetwork | None = None
    port: Port | None = None
    ca_file: CaFile | None = None

    def build_node_bmc(self, name: str, slot: int, entry: NodeBmcOrNone | None) -> Bmc | None:
        """Return one node's BMC, None for ``none``; raise if it has no address or its certificate is not verified."""
        if entry == "none":
            return None
        entry = entry or NodeBmc()
        address = entry.address or (self.network.address_of_slot(slot) if self.network else None)
        if address is None:
            raise build_spec_error(
                f"the BMC of {name} has no address",
                "give bmc.network, or bmc: {address: …} in the node's entry, or bmc: none if it has no BMC",
            )
        # A certificate of its own replaces the rack's authority: some BMCs only have self-signed ones.
        ca_file = None if entry.certificate_sha256 else self.ca_file
        check_verification(self.protocol, name, ca_file, entry.certificate_sha256, entry.system)
        return Bmc(
            protocol=self.protocol,
            address=address,
            port=self.port,
            system=entry.system,
            ca_file=ca_file,
            certificate_sha256=entry.certificate_sha256,
        )
