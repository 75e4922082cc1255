"""Price a program or a preview with the harness of the public programs.

``python -m programs.job PATH [STACK]`` from ``tests``: PATH is a case (``.yaml``), a preview (``.json``, as
``pulumi preview --json`` writes it) or a folder with a Python program. A case is compared with its arithmetic;
for anything else the report says what is priced, what is listed with which reason, and what counts as free.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gpufleet import cost
from programs.case import FOLDER, load_program, read_hand_rows
from programs.measure import Measurement, get_name, measure_program


def report_case(measured: Measurement) -> list[str]:
    """Return the lines of a case: each row of the arithmetic, and what we say of it."""
    program = measured.program
    money = f"{program.usd_per_month:,.2f} USD a month by hand, {measured.usd_per_month:,.2f} priced"
    lines = [f"{program.name}: {money}; {measured.share:.0%} of the money within 2 %"]
    lines += [
        f"  priced   {row.usd_per_month:>12,.2f}  {row.resource}: {row.what}" for row in measured.priced_rows
    ]
    for row in measured.other_rows:
        reason = "; ".join(measured.reasons.get(row.resource, ("NOT LISTED",)))
        lines.append(f"  missing  {row.usd_per_month:>12,.2f}  {row.resource}: {row.what}: {reason}")
    lines += [
        f"  FREE, but listed: {name}: {'; '.join(measured.reasons[name])}" for name in measured.listed_free
    ]
    if measured.excess_usd:
        lines.append(f"  NOT IN THE ARITHMETIC: {measured.excess_usd:,.2f}")
    return lines


def report_bill(resources: set[str], bill: cost.Bill) -> list[str]:
    """Return the lines of a program without arithmetic."""
    lines = [f"{bill.usd_per_month.expected:,.2f} USD a month priced"]
    for charge in bill.charges:
        what = f"{get_name(charge.urn)}: {charge.component}"
        lines.append(f"  priced   {charge.usd_per_month.expected:>12,.2f}  {what}: {charge.item}")
    lines += [
        f"  listed   {'':>12}  {get_name(gap.urn)}: {gap.component}: {gap.reason}"
        for gap in bill.unpriced_resources
    ]
    named = {charge.urn for charge in bill.charges} | {gap.urn for gap in bill.unpriced_resources}
    free = sorted(f"{urn.split('::')[2].rsplit('$', 1)[-1]} {get_name(urn)}" for urn in resources - named)
    return lines + [f"  free     {'':>12}  {each}" for each in free]


def run(path: Path, stack: str = "dev") -> list[str]:
    """Return the report of a case, a preview or a program."""
    if path.suffix == ".yaml":
        folder = path.parent if (path.parent / "by_hand.csv").is_file() else FOLDER
        return report_case(measure_program(load_program(path, read_hand_rows(folder).get(path.stem, ()))))
    if path.suffix == ".json":
        document = json.loads(path.read_text())
        urns = {step["urn"] for step in document["steps"] if (step.get("newState") or {}).get("custom")}
        return report_bill(urns, cost.diff_from_preview(document).after)
    resources = cost.evaluate_program(path, stack)
    return report_bill(
        {each.urn for each in resources if each.custom and not each.is_provider_resource},
        cost.price_resources(resources),
    )


if __name__ == "__main__":
    print("\n".join(run(Path(sys.argv[1]), *sys.argv[2:3])))
