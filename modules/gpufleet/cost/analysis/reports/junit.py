"""A difference as JUnit XML, which every CI system shows as tests: one case a limit, one for each gap."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from gpufleet.cost.analysis.diff import Check, CostDiff
from gpufleet.cost.analysis.reports import summary
from gpufleet.cost.money import round_to_cents
from gpufleet.cost.pricing.bill import UnpricedResource

# What XML 1.0 cannot hold, escaped or not.
ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def diff(of: CostDiff) -> str:
    """Write the verdict: a broken limit fails, what has no price is skipped with the reason."""
    name = legal(f"gpufleet cost {of.stack}".strip())
    checks = of.policy.checks
    counts = {
        "tests": str(1 + len(checks) + len(of.unpriced)),
        "failures": str(sum(bool(check.broken) for check in checks)),
        "errors": "0",
        "skipped": str(len(of.unpriced)),
    }
    suites = ET.Element("testsuites", {"name": name, **counts})
    suite = ET.SubElement(suites, "testsuite", {"name": name, **counts})
    _properties(suite, of)
    _priced(suite, of)
    for check in checks:
        _limit(suite, check)
    for gap in of.unpriced:
        _gap(suite, gap)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True)


def legal(text: str) -> str:
    """Leave out what XML cannot hold; the writer escapes the rest."""
    return ILLEGAL.sub("�", text)


def _properties(suite: ET.Element, of: CostDiff) -> None:
    figures = {
        "currency": "USD",
        "before_usd_per_month": round_to_cents(of.before.usd_per_month.expected),
        "after_usd_per_month": round_to_cents(of.after.usd_per_month.expected),
        "change_usd_per_month": of.change_usd_per_month,
    }
    held = ET.SubElement(suite, "properties")
    for name, value in figures.items():
        ET.SubElement(held, "property", name=name, value=str(value))


def _priced(suite: ET.Element, of: CostDiff) -> None:
    """Write the case that always is: the change was priced, and this is what it says."""
    case = ET.SubElement(suite, "testcase", classname="gpufleet.cost", name="change priced", time="0")
    said = [summary.headline(of), *summary.notes(of), *summary.warnings(of), *of.notes]
    ET.SubElement(case, "system-out").text = legal("\n".join(said))


def _limit(suite: ET.Element, check: Check) -> None:
    where = f" ({check.scope})" if check.scope else ""
    name = legal(f"{check.rule}: {check.demands}{where}")
    case = ET.SubElement(suite, "testcase", classname="gpufleet.cost.analysis.policy", name=name, time="0")
    if check.broken:
        failure = ET.SubElement(case, "failure", message=legal(check.broken[0]), type=check.limit)
        failure.text = legal("\n".join(check.broken))


def _gap(suite: ET.Element, gap: UnpricedResource) -> None:
    name = legal(f"{gap.name} {gap.component} ({gap.type})".replace("  ", " "))
    case = ET.SubElement(suite, "testcase", classname="gpufleet.cost.unpriced", name=name, time="0")
    ET.SubElement(case, "skipped", message=legal(gap.reason))
