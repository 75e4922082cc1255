"""The offline world: a declared fleet rehearsed on one machine, and nothing real touched.

In: a stack of this project. Out: a ``World``, which is a folder with everything that the rehearsal of that
stack is made of (Pulumi's backend and home, simulated cloud providers and what they hold, the registry, SSH
keys, the rack's hosts) and the environment in which plain ``pulumi``, ``ansible`` and ``gpufleet`` use it.
The engine is the real one; ``providers/`` holds the doubles it talks to; ``rack/`` boots the hosts.
"""

from __future__ import annotations

from gpufleet.rehearsal.world import World, WorldStatus

__all__ = ["World", "WorldStatus"]
