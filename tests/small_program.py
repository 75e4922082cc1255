"""A Pulumi program that needs no provider's SDK, where the size of the priced program is irrelevant.

Its evaluation takes an eighth of the processor time of the shipped one's.
"""

from __future__ import annotations

PROGRAM = """\
import pulumi

cost = {"usd_per_hour": float(pulumi.Config().require("usd_per_hour"))}
pulumi.ComponentResource("gpufleet:onprem:Rack", "rack", cost)
"""


def write_small_program(root, *stacks):
    """Put the program in the place of a project's own, with one rack at 1 USD an hour in each stack."""
    (root / "Pulumi.yaml").write_text("name: small\nruntime: python\nmain: stacks/\nstackConfigDir: stacks\n")
    (root / "stacks/__main__.py").write_text(PROGRAM)
    for stack in stacks:
        write_small_stack(root, stack, 1)


def write_small_stack(root, stack, usd_per_hour):
    """Write a stack of the program; return its file."""
    path = root / f"stacks/Pulumi.{stack}.yaml"
    path.write_text(f"config:\n  small:usd_per_hour: {usd_per_hour}\n")
    return path
