"""The burn-in agent: runs on the node, measures, and streams what it saw as JSON lines.

Comes in: an attempt id, a profile and parameters on the command line. Goes out: one `start` line, a `check`
line for each check (measured numbers and raw tool output), one `end` line. It judges nothing: that is done
centrally, so that new rules can judge old runs again. It is shipped as one zipapp, needs Python 3.9 or
newer and nothing else, and imports nothing of the rest of gpufleet.
"""

from __future__ import annotations

__all__ = ["AGENT_VERSION"]

AGENT_VERSION = "1.1"
