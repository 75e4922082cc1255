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
@output.json_flag
def export_policy_pack(*, folder: Path, policy_file: Path | None, as_json: bool) -> None:
    """Write a policy pack with these limits for `pulumi preview --policy-pack FOLDER/gpufleet-cost.sh`."""
    from gpufleet.cost.analysis.policy import load_policy
    from gpufleet.cost.analysis.policy.pack import PROGRAM, write_policy_pack

    if policy_file:
        load_policy(policy_file)
    write_policy_pack(folder)
    if policy_file:
        shutil.copyfile(policy_file, folder / "policy.yaml")
    program = str(folder / PROGRAM)
    output.print_change(
        as_json,
        {"folder": str(folder), "policy_pack": program},
        [f"wrote {folder}; next: pulumi preview -s STACK --policy-pack {program}"],
    )
