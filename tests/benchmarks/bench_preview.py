"""How long a large preview takes to price: 5,000 resources within 1 s and 200 MB. Prints, judges nothing.

    python tests/benchmarks/bench_preview.py [RESOURCES] [RUNS]

A child process prices a generated preview, so that its peak memory is its own. Pricing is what happens between the
engine's JSON in memory and the finished difference; the whole command, as typed, adds start-up, reading and writing.
Both sides are the same program with a tenth of its machines changed, over AWS, GCP and Azure, in a mix of machines,
groups, disks, addresses, reservations and things that bill nothing, with templates and tags as real programs have.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TAGS = {"gpufleet-owner": "ml-platform", "team": "research"}
BUDGET_S, BUDGET_MB = 1.0, 200
AWS, GCP, AZURE = "us-east-1", "us-central1-a", "eastus"


def make_resource(at, grown):
    """Return the type and inputs of one resource; ``grown`` is how it is after the change."""
    tags = TAGS | {"gpufleet-pool": f"pool-{at % 97}"}
    large = grown and at % 10 == 0
    kinds = (
        ("aws:ec2/instance:Instance", {
            "instanceType": "g5.12xlarge" if large else "g5.2xlarge", "availabilityZone": f"{AWS}a", "tags": tags,
            "rootBlockDevice": {"volumeSize": 100, "volumeType": "gp3"}, "associatePublicIpAddress": True}),
        ("aws:ebs/volume:Volume", {"availabilityZone": f"{AWS}a", "size": 500, "type": "gp3", "tags": tags}),
        ("aws:ec2/launchTemplate:LaunchTemplate", {
            "name": f"template-{at}", "instanceType": "g5.2xlarge", "tags": tags}),
        ("aws:autoscaling/group:Group", {
            "minSize": 1, "desiredCapacity": 6 if large else 2, "maxSize": 8, "availabilityZones": [f"{AWS}a"],
            "launchTemplate": {"name": f"template-{at - 1}", "version": "$Latest"},
            "tags": [{"key": key, "value": value, "propagateAtLaunch": True} for key, value in tags.items()]}),
        ("aws:ec2/securityGroup:SecurityGroup", {"description": "ssh", "tags": tags}),
        ("gcp:compute/instance:Instance", {
            "machineType": "g2-standard-24" if large else "g2-standard-8", "zone": GCP, "labels": tags,
            "bootDisk": {"initializeParams": {"size": 100, "type": "pd-balanced"}},
            "networkInterfaces": [{"accessConfigs": [{}]}], "scheduling": {"provisioningModel": "SPOT"}}),
        ("gcp:compute/disk:Disk", {"zone": GCP, "size": 500, "type": "pd-balanced", "labels": tags}),
        ("azure-native:compute:VirtualMachine", {
            "location": AZURE, "tags": tags,
            "hardwareProfile": {"vmSize": "Standard_NC64as_T4_v3" if large else "Standard_NC4as_T4_v3"},
            "storageProfile": {"osDisk": {"diskSizeGB": 128, "managedDisk": {"storageAccountType": "Premium_LRS"}}}}),
        ("azure-native:network:PublicIPAddress", {"location": AZURE, "sku": {"name": "Standard"}, "tags": tags}),
        ("aws:cloudwatch/metricAlarm:MetricAlarm", {"tags": tags}),
    )  # fmt: skip
    return kinds[at % len(kinds)]


def state(at, grown):
    """Return one resource's record as an engine writes it."""
    kind, inputs = make_resource(at, grown)
    name = f"{kind.rsplit(':', 1)[1].lower()}-{at}"
    return {
        "urn": f"urn:pulumi:bench::bench::{kind}::{name}", "type": kind, "custom": True, "id": f"id-{at}",
        "inputs": inputs, "outputs": inputs | {"id": f"id-{at}", "arn": f"arn:aws:bench::{at}"},
    }  # fmt: skip


def preview(count):
    """Return a preview with so many steps."""
    steps = []
    for at in range(count):
        old, new = state(at, grown=False), state(at, grown=True)
        op = "same" if old == new else "update"
        steps.append({"op": op, "urn": old["urn"], "oldState": old, "newState": new})
    ops = [step["op"] for step in steps]
    return {"steps": steps, "changeSummary": {op: ops.count(op) for op in set(ops)}}


def price_preview(path):
    """Price the preview in this process, and print what it took: the child's part."""
    from gpufleet import cost

    text = Path(path).read_text()
    reading = time.process_time()
    document = json.loads(text)
    reading = time.process_time() - reading
    before = resource.getrusage(resource.RUSAGE_SELF)
    started = time.perf_counter()
    difference = cost.diff_from_preview(document)
    wall, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({
        "wall": wall,
        "cpu": after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime,
        "reading": reading,
        "peak_mb": after.ru_maxrss / 1024,
        "lines": len(difference.lines),
        "unpriced": len(difference.unpriced_resources),
        "change": float(difference.change_usd_per_month),
    }))  # fmt: skip


def run_child(*arguments):
    result = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return result.stdout


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "preview.json"
        path.write_text(json.dumps(preview(count)))
        results = [json.loads(run_child(__file__, "--priced", str(path))) for _ in range(runs)]
        started, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        run_child("-m", "gpufleet", "cost", "diff", "--preview", str(path), "--format", "json")
        total_seconds = time.perf_counter() - started
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - used.ru_utime + after.ru_stime - used.ru_stime
    wall = statistics.median(result["wall"] for result in results)
    peak = max(result["peak_mb"] for result in results)
    first = results[0]
    print(f"a preview of {count:,} resources, before and after, {runs} runs on {os.cpu_count()} cores")
    print(
        f"  {first['lines']:,} lines, {first['unpriced']:,} without price, change {first['change']:+,.2f} USD a month"
    )
    print(f"  pricing  wall median {wall:.2f} s of {BUDGET_S:.0f} s ({wall / BUDGET_S:.0%})   "
          f"cpu median {statistics.median(result['cpu'] for result in results):.2f} s")  # fmt: skip
    ratio = statistics.median(result["cpu"] / result["reading"] for result in results)
    print(f"  ratio    pricing takes the cpu of reading the same JSON {ratio:.1f} times")
    print(f"  memory   peak {peak:.0f} MB of {BUDGET_MB} MB ({peak / BUDGET_MB:.0%}), the document included")
    print(
        f"  command  wall {total_seconds:.2f} s   cpu {cpu:.2f} s   `gpufleet cost diff --preview FILE --format json`"
    )
    print(f"  load average of the machine {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    price_preview(sys.argv[2]) if sys.argv[1:2] == ["--priced"] else main()
