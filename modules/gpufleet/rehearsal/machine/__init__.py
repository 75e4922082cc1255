"""What this machine has and what is missing: the checks of `gpufleet doctor`, and the installation of packages.

Output: one ``Check`` for each requirement with its detail, whether it is required, and the command that installs
it. Credentials are reported by presence, never by value.
"""

from __future__ import annotations

from gpufleet.rehearsal.machine.check import format_check_table
from gpufleet.rehearsal.machine.repair import install_missing_requirements
from gpufleet.rehearsal.machine.survey import survey_machine

__all__ = ["format_check_table", "install_missing_requirements", "survey_machine"]
