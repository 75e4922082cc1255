"""Warnings about a valid rack file: one price for unlike machines, and named files that are not there."""

from __future__ import annotations

from pathlib import Path

from gpufleet.errors import InputError
from gpufleet.fleet.document import SpecProblem
from gpufleet.fleet.rack import Rack
from gpufleet.fleet.rack_file import read_rack_document

MAX_KINDS = 4  # of unlike machines that a warning names
SPLIT_COST = "give cost: {capital_usd: …, watts_per_node: …} in the entries"


def list_rack_warnings(rack: Rack, root: Path) -> list[InputError]:
    """Return a warning, with its line in the rack file, for each part that is valid and probably not meant."""
    problems = [*_list_equal_prices(rack), *_list_missing_files(rack, root)]
    if not problems:
        return []
    return read_rack_document(root / f"inventory/{rack.name}.yaml", root).list_errors(problems)


def note_equal_prices(rack: Rack) -> str:
    """Return a note on a rack whose unlike nodes would have one price; empty for any other rack."""
    texts = [f"rack {rack.name}: {each.text}: {each.remedy}" for each in _list_equal_prices(rack)]
    return next(iter(texts), "")


def _list_equal_prices(rack: Rack) -> list[SpecProblem]:
    kinds = rack.equally_priced_kinds
    listed = f"{'; '.join(kinds[:MAX_KINDS])}{'; …' if len(kinds) > MAX_KINDS else ''}"
    text = f"one price and power for unlike machines ({listed})"
    return [SpecProblem(("cost",), text, SPLIT_COST)] if kinds else []


def _list_missing_files(rack: Rack, root: Path) -> list[SpecProblem]:
    problems = []
    authority = next((node.bmc.ca_file for node in rack.nodes if node.bmc and node.bmc.ca_file), None)
    if authority and not Path(authority).is_file():
        remedy = "put the certificate of the BMCs' authority there; nothing switches power without it"
        problems.append(SpecProblem(("bmc", "ca_file"), f"{authority} is not on this machine", remedy))
    stack = rack.boot.ssh.stack if rack.boot else None
    if stack and not (root / f"stacks/Pulumi.{stack}.yaml").is_file():
        text = f"stacks/Pulumi.{stack}.yaml does not exist"
        problems.append(
            SpecProblem(("boot", "ssh", "stack"), text, "name a stack of this project: its keys log in")
        )
    return problems
