"""The Pulumi program of every stack: read the fleet from the stack's config and build it."""

from __future__ import annotations

import gc

import pulumi

from gpufleet import cloud, fleet
from gpufleet.errors import InputError

gc.disable()  # the SDKs load a million objects that stay; searching them for garbage took 2 of 7 seconds

stack = pulumi.get_stack()
try:
    declared = pulumi.Config("gpufleet").require_object("fleet")
    cloud.declare_fleet(fleet.parse_fleet(declared, stack=stack, where=f"stacks/Pulumi.{stack}.yaml"))
except InputError as error:
    raise pulumi.RunError(str(error)) from error  # one line, where a plain exception prints a traceback
