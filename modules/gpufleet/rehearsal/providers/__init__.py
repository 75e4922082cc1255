"""Simulated cloud providers for the real Pulumi engine: doubles of the aws, gcp and azure-native plugins.

In come the engine's plugin calls (check, diff, create, read, update, delete, invoke) for the resource types
that our components use, and for some of other people's programs; out go answers in the shape of the real
plugins, with ids and addresses derived from the resource's URN. Each simulated cloud remembers what exists in
``$GPUFLEET_HOME/providers/<cloud>.sqlite``, so that state outlives a command and a killed one. No cloud is
ever called. ``install`` writes the three executables that the engine finds on PATH before it would download a
plugin.
"""

from __future__ import annotations

from gpufleet.rehearsal.providers.install import CLOUDS, install_launchers

__all__ = ["CLOUDS", "install_launchers"]
