"""A difference as JUnit XML for CI systems: one case for each limit and each unpriced resource."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from gpufleet.cost.analysis.diff import CostDiff, PolicyLimitCheck
from gpufleet.cost.analysis.reports import summary
from gpufleet.cost.money import round_to_cents
from gpufleet.cost.pricing.bill import UnpricedResource

# What XML 1.0 cannot hold, escaped or not.
ILLEGAL_CHARACTERS = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render_junit_xml(diff: CostDiff) -> str:
    """Return the verdict: a violated or undecided limit fails, an unpriced resource is skipped with its reason."""
    name = replace_illegal_xml_characters(f"gpufleet cost {diff.stack}".strip())
    checks = diff.policy.checks
    counts = {
        "tests": str(1 + len(checks) + len(diff.unpriced_resources)),
        "failures": str(sum(not check.is_met for check in checks)),
        "errors": "0",
        "skipped": str(len(diff.unpriced_resources)),
    }
    suites = ET.Element("testsuites", {"name": name, **counts})
    suite = ET.SubElement(suites, "testsuite", {"name": name, **counts})
    _add_properties(suite, diff)
    _add_priced_case(suite, diff)
    for check in checks:
        _add_limit_case(suite, check)
    for unpriced in diff.unpriced_resources:
        _add_unpriced_case(suite, unpriced)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True)


def replace_illegal_xml_characters(text: str) -> str:
    """Replace characters that XML cannot contain; the writer escapes the rest."""
    return ILLEGAL_CHARACTERS.sub("�", text)


def _add_properties(suite: ET.Element, diff: CostDiff) -> None:
    figures = {
        "currency": "USD",
        "before_usd_per_month": round_to_cents(diff.before.usd_per_month.expected),
        "after_usd_per_month": round_to_cents(diff.after.usd_per_month.expected),
        "change_usd_per_month": diff.change_usd_per_month,
    }
    properties = ET.SubElement(suite, "properties")
    for name, value in figures.items():
        ET.SubElement(properties, "property", name=name, value=str(value))


def _add_priced_case(suite: ET.Element, diff: CostDiff) -> None:
    """Add the case that always passes: the change was priced, with the headline as its output."""
    case = ET.SubElement(suite, "testcase", classname="gpufleet.cost", name="change priced", time="0")
    lines = [
        summary.format_change_headline(diff),
        *summary.format_headline_notes(diff),
        *summary.format_unknown_changes(diff),
        *summary.format_diff_warnings(diff),
        *diff.notes,
    ]
    ET.SubElement(case, "system-out").text = replace_illegal_xml_characters("\n".join(lines))


def _add_limit_case(suite: ET.Element, check: PolicyLimitCheck) -> None:
    where = f" ({check.scope})" if check.scope else ""
    name = replace_illegal_xml_characters(f"{check.rule}: {check.requirement}{where}")
    case = ET.SubElement(suite, "testcase", classname="gpufleet.cost.analysis.policy", name=name, time="0")
    texts = check.violations or ((check.undecided,) if check.undecided else ())
    if texts:
        failure = ET.SubElement(
            case, "failure", message=replace_illegal_xml_characters(texts[0]), type=check.limit
        )
        failure.text = replace_illegal_xml_characters("\n".join(texts))


def _add_unpriced_case(suite: ET.Element, unpriced: UnpricedResource) -> None:
    name = replace_illegal_xml_characters(
        f"{unpriced.name} {unpriced.component} ({unpriced.type})".replace("  ", " ")
    )
    class_name = "gpufleet.cost.usage" if unpriced.is_by_use else "gpufleet.cost.unpriced"
    case = ET.SubElement(suite, "testcase", classname=class_name, name=name, time="0")
    ET.SubElement(case, "skipped", message=replace_illegal_xml_characters(unpriced.reason))
