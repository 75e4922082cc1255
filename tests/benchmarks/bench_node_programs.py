"""How long `gpufleet cost diff` takes for a TypeScript project of 50 resources, next to two bare runs of its program.

    python tests/benchmarks/bench_node_programs.py [RUNS]

A bare run is `node` with the program and its imports: TypeScript compiled without type checks, the SDK's own mocks, no
confinement. Each round makes two of them, one after the other, and one `cost diff` of both refs with nothing kept.
Budget: at most 1.5 times the two bare runs. Needs npm and its registry: the packages are pinned in
tests/cases/node_packages.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "tests/cases/node_packages"
BUDGET = 1.5
PROGRAM = """
import * as aws from "@pulumi/aws";
const vpc = new aws.ec2.Vpc("vpc", { cidrBlock: "10.0.0.0/16" });
const subnets = [0, 1, 2].map(i => new aws.ec2.Subnet(`subnet-${i}`, { vpcId: vpc.id, cidrBlock: `10.0.${i}.0/24` }));
const ip = new aws.ec2.Eip("ip", { domain: "vpc" });
new aws.ec2.NatGateway("nat", { allocationId: ip.id, subnetId: subnets[0].id });
for (let i = 0; i < 22; i++) {
    new aws.ec2.Instance(`node-${i}`, { ami: "ami-1", instanceType: "SIZE", subnetId: subnets[i % 3].id,
        rootBlockDevice: { volumeSize: 50, volumeType: "gp3" } });
    new aws.ec2.SecurityGroupRule(`rule-${i}`, { type: "ingress", fromPort: 22, toPort: 22, protocol: "tcp",
        securityGroupId: vpc.defaultSecurityGroupId, cidrBlocks: ["10.0.0.0/16"] });
}
"""
BARE = """
const { tsnodeRequire, typescriptRequire } = require("@pulumi/pulumi/tsutils").typeScriptRequireStrings();
require(tsnodeRequire).register({ compiler: typescriptRequire, transpileOnly: true, skipProject: true,
    compilerOptions: { target: "es6", module: "commonjs", moduleResolution: "node" } });
const pulumi = require("@pulumi/pulumi");
pulumi.runtime.setMocks({ newResource: a => ({ id: "", state: a.inputs }), call: a => a.inputs }, "shop", "dev", true);
require("./index.ts");
"""


def make_project(root):
    """Write and commit a project, and change one value of it."""
    for file in ("package.json", "package-lock.json"):
        shutil.copy(PACKAGES / file, root)
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--silent"], cwd=root, check=True)
    (root / "Pulumi.yaml").write_text("name: shop\nruntime: nodejs\n")
    (root / "Pulumi.dev.yaml").write_text("config: {aws:region: us-east-1}\n")
    (root / ".gitignore").write_text("node_modules\n")
    (root / "index.ts").write_text(PROGRAM.replace("SIZE", "m5.large"))
    (root / "bare.js").write_text(BARE)
    git = ["git", "-C", str(root), "-c", "user.name=b", "-c", "user.email=b@example.org"]
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-qm", "base"], check=True)
    (root / "index.ts").write_text(PROGRAM.replace("SIZE", "m5.xlarge"))


def time_command(command, root):
    """Run a command, and return its wall and CPU seconds."""
    started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"GPUFLEET_PROGRAM_CACHE": "off"}
    subprocess.run(command, cwd=root, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return time.perf_counter() - started, cpu


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    diff = [sys.executable, "-m", "gpufleet", "cost", "diff", "-s", "dev", "--base", "HEAD", "--json"]
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_project(root)
        time_command(["node", "bare.js"], root)
        rounds = []
        for _ in range(runs):
            bare = [time_command(["node", "bare.js"], root) for _ in range(2)]
            rounds.append((*(sum(values) for values in zip(*bare, strict=True)), *time_command(diff, root)))
    walls = [diff_wall / bare_wall for bare_wall, _, diff_wall, _ in rounds]
    cpus = [diff_cpu / bare_cpu for _, bare_cpu, _, diff_cpu in rounds]
    bare_wall, bare_cpu, diff_wall, diff_cpu = (
        statistics.median(values) for values in zip(*rounds, strict=True)
    )
    print(f"a TypeScript project of 50 resources, {runs} rounds on {os.cpu_count()} cores")
    print(f"  two bare runs  wall median {bare_wall:5.2f} s   cpu median {bare_cpu:5.2f} s")
    print(f"  cost diff      wall median {diff_wall:5.2f} s   cpu median {diff_cpu:5.2f} s")
    print(
        f"  ratio          wall {statistics.median(walls):.2f} (budget {BUDGET})   cpu {statistics.median(cpus):.2f}"
    )
    print(f"  load average of the machine {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
