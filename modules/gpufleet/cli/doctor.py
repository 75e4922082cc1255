"""``gpufleet doctor``: what is there, what is missing, how to get it."""

from __future__ import annotations

import json
from dataclasses import asdict

import click


@click.command(name="doctor")
@click.option(
    "--fix", is_flag=True, help="Bring what is missing: Debian packages (as root), the Pulumi engine."
)
@click.option("--tests", is_flag=True, help="With --fix: what the test suite needs as well.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(fix: bool, tests: bool, as_json: bool) -> None:
    """Tell what this machine has and lacks; exit 3 when something required is missing."""
    from gpufleet.errors import EnvironmentFault
    from gpufleet.rehearsal import machine

    checks = machine.survey()
    if fix:
        machine.mend(checks, lambda text: click.echo(text, err=True), tests=tests)
        checks = machine.survey()
    lacking = [check.name for check in checks if check.need == "required" and not check.ok]
    report = {"ok": not lacking, "checks": [asdict(check) for check in checks]}
    click.echo(json.dumps(report, indent=2) if as_json else machine.as_table(checks))
    if lacking:
        raise EnvironmentFault(f"missing: {', '.join(lacking)}", hint="gpufleet doctor --fix")
