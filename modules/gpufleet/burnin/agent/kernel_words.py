"""Which lines of the kernel log count: id, words, pattern and rank of each rule; `build.py` writes the values here."""

from __future__ import annotations

from gpufleet.burnin.kernel_rule import list_agent_rules

KERNEL_RULES = list_agent_rules()
