"""Burn-in reports as JUnit XML for CI servers: a suite for each node, a case for each check and for the verdict.

Elements and attributes are those of Jenkins' schema (junit-10.xsd of its xUnit plugin). JUnit has no warning: a check
that warns passes and reports it in its output; the case `verdict` fails for a faulty or incomplete node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as ET

from gpufleet.boundary import make_values_printable

Json = Mapping[str, Any]
FAILING_VERDICTS = ("faulty", "incomplete")


def render_junit_xml(reports: Sequence[Json]) -> str:
    """Return the reports of several nodes as one document."""
    root = ET.Element("testsuites", {"name": "gpufleet burn-in"})
    for number, report in enumerate(make_values_printable(list(reports))):
        add_suite(root, report, number)
    totals = {name: sum(int(suite.get(name, "0")) for suite in root) for name in ("tests", "failures")}
    root.attrib.update({name: str(total) for name, total in totals.items()} | {"errors": "0"})
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def add_suite(root: ET.Element, report: Json, number: int) -> None:
    """Add a node's suite."""
    node, verdict, checks = str(report["node"]), str(report["verdict"]), report["checks"]
    counts = {
        "tests": len(checks) + 1,
        "failures": sum(check["outcome"] == "fail" for check in checks) + (verdict in FAILING_VERDICTS),
        "errors": 0,
        "skipped": sum(check["outcome"] == "not_run" for check in checks),
    }
    attributes = {"name": node, "hostname": node, "id": str(number), "package": "gpufleet.burnin"}
    suite = ET.SubElement(
        root, "testsuite", attributes | {name: str(count) for name, count in counts.items()}
    )
    if report.get("started_at"):
        suite.set("timestamp", str(report["started_at"]).removesuffix("Z"))
    properties = ET.SubElement(suite, "properties")
    for name in ("attempt", "profile", "verdict", "started_at", "ended_at"):
        ET.SubElement(properties, "property", name=name, value=str(report.get(name) or ""))
    for check in checks:
        add_check_case(suite, node, check)
    case = ET.SubElement(suite, "testcase", classname=f"gpufleet.burnin.{node}", name="verdict")
    if verdict in FAILING_VERDICTS:
        ET.SubElement(case, "failure", type=verdict, message=f"{node} is {verdict}")
    else:
        ET.SubElement(case, "system-out").text = verdict


def add_check_case(suite: ET.Element, node: str, check: Json) -> None:
    """Add a check's case."""
    case = ET.SubElement(suite, "testcase", classname=f"gpufleet.burnin.{node}", name=str(check["name"]))
    reason = str(check["reason"])
    if check["outcome"] == "fail":
        failure = ET.SubElement(case, "failure", type="fail", message=reason)
        failure.text = format_evidence(check)
    elif check["outcome"] == "not_run":
        ET.SubElement(case, "skipped", type="not_run", message=reason)
    else:
        warning = f"warning: {reason}\n" if check["outcome"] == "warn" else f"{reason}\n" if reason else ""
        ET.SubElement(case, "system-out").text = warning + format_evidence(check)


def format_evidence(check: Json) -> str:
    """Return what was measured, the bound and its source."""
    parts = []
    if check["measured"] is not None:
        measured = check["measured"]
        number = f"{measured:g}" if isinstance(measured, int | float) else str(measured)
        parts.append(f"measured {number} {check['unit']}".rstrip())
    if check["threshold"] is not None:
        parts.append(f"threshold {check['threshold']}")
    if check["threshold_source"]:
        parts.append(f"source {check['threshold_source']}")
    return "; ".join(parts)
