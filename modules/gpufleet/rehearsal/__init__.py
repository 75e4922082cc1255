"""Rehearsals: a declared fleet on one machine, offline, without any change to real clouds or hosts.

Input: a stack of this project. Output: a ``Rehearsal``. It is a folder with Pulumi's backend and home, simulated
cloud providers and their resources, the registry, SSH keys and the rack's hosts, plus the environment in which
plain ``pulumi``, ``ansible`` and ``gpufleet`` use them. The engine is the real one; ``providers/`` has the
simulated cloud plugins; ``rack/`` boots the hosts.
"""

from __future__ import annotations

from gpufleet.rehearsal.rehearsal import Rehearsal

__all__ = ["Rehearsal"]
