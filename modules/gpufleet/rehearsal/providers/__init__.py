"""Simulated cloud providers for the real Pulumi engine: fakes of the aws, gcp and azure-native plugins.

Input: the engine's plugin calls (check, diff, create, read, update, delete, invoke) for the resource types of our
components and some others. Output: responses in the format of the real plugins, with ids and addresses derived from
the resource's URN. Each simulated cloud stores its resources in ``$GPUFLEET_HOME/providers/<cloud>.sqlite``, so that
they survive the command, also after a kill. No cloud is ever called. ``install_provider_launchers`` writes the
executables that the engine finds on PATH.
"""

from __future__ import annotations

from gpufleet.rehearsal.providers.install import CLOUDS, install_provider_launchers

__all__ = ["CLOUDS", "install_provider_launchers"]
