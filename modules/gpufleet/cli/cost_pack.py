"""``gpufleet cost policy-pack``: the same rules for Pulumi's own policy check."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from gpufleet.cli import output


@click.command("policy-pack")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option(
    "--policy", "policy_file", type=click.Path(path_type=Path), help="File with the limits to include."
)
def export_policy_pack(*, folder: Path, policy_file: Path | None) -> None:
    """Write a policy pack with these limits for `pulumi preview --policy-pack FOLDER/gpufleet-cost.sh`."""
    from gpufleet.cost.analysis.policy import load_policy
    from gpufleet.cost.analysis.policy.pack import PROGRAM, write_policy_pack

    if policy_file:
        load_policy(policy_file)
    write_policy_pack(folder)
    if policy_file:
        shutil.copyfile(policy_file, folder / "policy.yaml")
    output.print_lines(
        f"wrote {folder}; next: pulumi preview -s STACK --policy-pack {folder / PROGRAM}", err=True
    )
