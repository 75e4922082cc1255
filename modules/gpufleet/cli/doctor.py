"""``gpufleet doctor``: what is there, what is missing, how to get it."""

from __future__ import annotations

from dataclasses import asdict

import click

from gpufleet.boundary import make_values_printable
from gpufleet.cli import output


@click.command(name="doctor")
@click.option(
    "--fix", is_flag=True, help="Install what is missing: Debian packages (as root), the Pulumi engine."
)
@click.option("--tests", is_flag=True, help="With --fix: also install the requirements of the test suite.")
@output.json_option
def doctor_command(fix: bool, tests: bool, as_json: bool) -> None:
    """List installed and missing requirements; exit code 3 if a required one is missing."""
    from gpufleet.errors import EnvironmentFault
    from gpufleet.rehearsal import machine

    checks = machine.survey_machine()
    if fix:
        machine.install_missing_requirements(
            checks, lambda text: output.print_text_block(text, err=True), include_tests=tests
        )
        checks = machine.survey_machine()
    missing = [check.name for check in checks if check.need == "required" and not check.ok]
    report = {"ok": not missing, "checks": [asdict(check) for check in checks]}
    if as_json:
        output.print_json(report)
    else:
        output.print_text_block(machine.format_check_table(make_values_printable(checks)))
    if missing:
        raise EnvironmentFault(f"missing: {', '.join(missing)}", hint="gpufleet doctor --fix")
