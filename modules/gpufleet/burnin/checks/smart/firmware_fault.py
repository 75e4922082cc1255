"""Drives whose firmware has a known fault: a table with a source for each row."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from gpufleet.boundary import read_packaged_yaml
from gpufleet.burnin.evidence import Raw


@dataclass(frozen=True)
class FirmwareFault:
    """A model and a firmware that fail by a known bug, or that count something wrong.

    ``wrong_counter`` is the name of a metric of this check that the firmware gets wrong, up to ``up_to``.
    ``wrong_attribute`` is the number of an ATA attribute that it calls failed on drives that work.
    """

    model: str
    firmware: str
    fault: str
    remedy: str
    source: str
    date: str
    wrong_counter: str = ""
    up_to: float = 0.0
    wrong_attribute: int = 0

    @property
    def is_fatal(self) -> bool:
        """True if the drive stops by this fault; otherwise it only reports something wrong."""
        return not self.wrong_counter and not self.wrong_attribute

    def matches(self, model: str, firmware: str) -> bool:
        """Return whether a drive is of this model with this firmware."""
        product = model.rpartition(" ")[2]  # SAS: the vendor's name is before the product
        return any(re.fullmatch(self.model, name, re.IGNORECASE) for name in (model, product)) and bool(
            re.fullmatch(self.firmware, firmware, re.IGNORECASE)
        )


@cache
def load_firmware_faults() -> tuple[FirmwareFault, ...]:
    """Return the known faults, as the table lists them."""
    rows = read_packaged_yaml("gpufleet.burnin", "checks/smart/firmware_faults.yaml")
    return tuple(FirmwareFault(**{**row, "date": str(row["date"])}) for row in rows)


def list_firmware_faults(drive: Raw) -> list[FirmwareFault]:
    """Return the known faults of a drive's firmware."""
    model = read_first_text(drive, "model_name", "scsi_model_name")
    firmware = read_first_text(drive, "firmware_version", "scsi_revision", "revision")
    return [fault for fault in load_firmware_faults() if fault.matches(model, firmware)] if model else []


def read_first_text(drive: Raw, *names: str) -> str:
    """Return the first of these fields that is a text, without blanks around it."""
    texts = (value.strip() for name in names if isinstance(value := drive.get(name), str))
    return next((text for text in texts if text), "")
