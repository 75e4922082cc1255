"""What each check.yaml says to the agent. In the built agent `build.py` writes the values here."""

from __future__ import annotations

from gpufleet.burnin.check_definition import list_agent_checks

CHECK_TABLE = list_agent_checks()
