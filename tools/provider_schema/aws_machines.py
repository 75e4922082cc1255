"""Facts of EC2's instance types, as DescribeInstanceTypes and DescribeInstanceTypeOfferings answered moto's authors.

moto is a development dependency; the result is ``data/machines/aws.json``, which the simulated AWS reads.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import importlib.util
import json
from pathlib import Path
from typing import Any

from gpufleet.boundary import LARGE_DOCUMENT, decode_json

_GZIP = b"\x1f\x8b"
_USAGE = {"on-demand": "o", "spot": "s", "capacity-block": "b"}


def _decode_record(content: bytes) -> Any:
    """Return a recorded answer, which moto has compressed or not."""
    text = gzip.decompress(content) if content.startswith(_GZIP) else content
    return decode_json(text, "moto's record", LARGE_DOCUMENT)


def build_aws_machines() -> dict[str, Any]:
    """Return type -> sold as, network cards as [count, interfaces, has EFA], EFA interfaces, cluster placement, vCPUs.

    ``regions`` lists the accelerator types that a region offers; it is empty for a region without a record.
    """
    spec = importlib.util.find_spec("moto")
    resources = Path(str(spec.origin)).parent / "ec2/resources" if spec else Path()
    types = _decode_record((resources / "instance_types.json.gz").read_bytes())
    machines = {name: _describe(fields) for name, fields in sorted(types.items())}
    accelerated = {name for name, fields in types.items() if _has_accelerator(fields)}
    regions = {}
    for path in sorted((resources / "instance_type_offerings/region").glob("*.json*")):
        offered = {offer["InstanceType"] for offer in _decode_record(path.read_bytes())}
        regions[path.name.split(".")[0]] = sorted(offered & accelerated)
    return {
        "source": "AWS DescribeInstanceTypes and DescribeInstanceTypeOfferings, recorded in moto "
        + importlib.metadata.version("moto"),
        "machines": machines,
        "accelerated": sorted(accelerated),
        "regions": regions,
    }


def _has_accelerator(fields: dict[str, Any]) -> bool:
    return any(key in fields for key in ("GpuInfo", "InferenceAcceleratorInfo", "NeuronInfo"))


def _describe(fields: dict[str, Any]) -> list[Any]:
    network = fields["NetworkInfo"]
    efa_total = (
        network.get("EfaInfo", {}).get("MaximumEfaInterfaces", 0) if network.get("EfaSupported") else 0
    )
    cards: list[list[int]] = []
    for card in network.get("NetworkCards", []):
        kinds = card.get("InterfaceTypes")
        efa = int(bool(efa_total) and (kinds is None or "efa" in kinds))
        if cards and cards[-1][1:] == [card["MaximumNetworkInterfaces"], efa]:
            cards[-1][0] += 1
        else:
            cards.append([1, card["MaximumNetworkInterfaces"], efa])
    usage = "".join(_USAGE.get(kind, "") for kind in fields.get("SupportedUsageClasses", []))
    cluster = int("cluster" in fields.get("PlacementGroupInfo", {}).get("SupportedStrategies", []))
    return [usage, cards, efa_total, cluster, fields["VCpuInfo"]["DefaultVCpus"]]


def format_machines(machines: dict[str, Any]) -> str:
    """Return JSON text with one machine or region a line."""
    sections = [
        f'"source": {json.dumps(machines["source"])}',
        f'"accelerated": {json.dumps(machines["accelerated"])}',
    ]
    for name in ("machines", "regions"):
        rows = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in machines[name].items())
        sections.append(f'"{name}": {{\n{rows}\n}}')
    return "{\n" + ",\n".join(sections) + "\n}\n"
