"""An acceptance report as text."""

from __future__ import annotations

from gpufleet.boundary import Json
from gpufleet.boundary.name_range import fold_names_to_ranges


def format_acceptance(document: Json) -> str:
    """Return the verdict, what was run, and every node that is not accepted without reservations, as lines."""
    lines = [document["statement"]]
    for run in document["runs"]:
        dates = f"{run['first']} to {run['last']}"
        lines.append(
            f"  {run['nodes']} by {run['profile']}, agent {run['agent_version'] or 'unknown'}, {dates}"
        )
    if mesh := document["mesh"]:
        lines.append(
            f"  network: {mesh['nodes']} nodes, {mesh['fail']} failed, {mesh['warn']} with a warning"
        )
    for status, key in (("rejected", "rejections"), ("reservation", "reservations")):
        for node in document["nodes"]:
            if node["status"] == status:
                lines += [f"{status:<12} {node['name']}", *(f"    {reason}" for reason in node[key])]
    lines += [f"site bound   {row['nodes']} nodes: {row['text']}" for row in document["overrides"]]
    lines += [f"site rule    {text}" for text in document["site_rules"]]
    accepted = [node["name"] for node in document["nodes"] if node["status"] == "accepted"]
    return "\n".join([*lines, *([f"accepted     {fold_names_to_ranges(accepted)}"] if accepted else [])])
