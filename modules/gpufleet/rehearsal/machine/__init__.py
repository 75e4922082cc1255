"""What this machine has and lacks for the work: the doctor's questions, and the mending of what can be mended.

In: the machine as it is. Out: one ``Check`` for each thing, with what was found, whether it is required and
the exact command that would bring it. Of credentials only their presence is told, never a value.
"""

from __future__ import annotations

from gpufleet.rehearsal.machine.check import Check, as_table
from gpufleet.rehearsal.machine.mending import mend
from gpufleet.rehearsal.machine.survey import survey

__all__ = ["Check", "as_table", "mend", "survey"]
