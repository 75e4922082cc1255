"""Evaluate TypeScript and JavaScript programs with Node and the real SDKs, without an engine or credentials."""

from __future__ import annotations

import json
import subprocess
from collections import Counter

import pytest

from gpufleet import cost
from gpufleet.cost.inputs import remote_component
from gpufleet.cost.inputs.program import evaluation, node_packages
from gpufleet.cost.inputs.program.stack_program import StackProgram
from gpufleet.engine import parse_stack_state
from gpufleet.errors import EnvironmentFault, InputError

INSTANCE = 'new aws.ec2.Instance("node", {{ ami: "ami-1", instanceType: {size} }});\n'
IMPORTS = 'import * as pulumi from "@pulumi/pulumi";\nimport * as aws from "@pulumi/aws";\n'
RECORD = 'const record = (value: any) => new pulumi.CustomResource("t:m:C", "c", { value });\n'


@pytest.fixture
def make_project(tmp_path, node_modules):
    """Make a committed project with installed packages; return its root."""

    def make(program, *, config="{}", file="index.ts", project="runtime: nodejs\n", files=None, folder=""):
        top = tmp_path / "repository"
        root = top / folder
        root.mkdir(parents=True, exist_ok=True)
        (root / "Pulumi.yaml").write_text(f"name: shop\n{project}")
        (root / "Pulumi.dev.yaml").write_text(f"config: {config}\n")
        (root / "package.json").write_text(json.dumps({"name": "shop", "dependencies": {"@pulumi/aws": "7"}}))
        (top / ".gitignore").write_text("node_modules\n")
        for name, text in {file: program, **(files or {})}.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(text)
        if not (root / "node_modules").exists():
            (root / "node_modules").symlink_to(node_modules)
        subprocess.run(["git", "init", "-q", str(top)], check=True)
        commit(top)
        return root

    return make


def commit(top):
    git = ["git", "-C", str(top), "-c", "user.name=t", "-c", "user.email=t@example.org"]
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "state"], check=True)


def evaluate_value(root, **options):
    """Return what the program records."""
    resources = cost.evaluate_program(root, "dev", **options)
    return next(resource for resource in resources if resource.name == "c").inputs["value"]


def test_both_refs_of_a_typescript_program_are_priced(make_project, gpufleet):
    root = make_project(IMPORTS + INSTANCE.format(size='"m5.large"'), config="{aws:region: us-east-1}")
    (root / "index.ts").write_text(IMPORTS + INSTANCE.format(size='"m5.xlarge"'))
    answer = gpufleet("cost", "diff", "-s", "dev", "--base", "HEAD", "--json", cwd=root)
    document = json.loads(answer.stdout)
    # m5.large 0.096 and m5.xlarge 0.192 USD an hour, a public address 0.005, for 730 hours; 8 GiB of gp3.
    assert document["before"]["usd_per_month"] == 74.37
    assert document["after"]["usd_per_month"] == 144.45
    assert document["change"]["usd_per_month"] == 70.08


def test_remote_components_are_priced_by_their_inputs(make_project, gpufleet):
    root = make_project(
        IMPORTS
        + """
import * as awsx from "@pulumi/awsx";
import * as eks from "@pulumi/eks";
const vpc = new awsx.ec2.Vpc("vpc", { numberOfAvailabilityZones: 2 });
const cluster = new eks.Cluster("c", {
    vpcId: vpc.vpcId, privateSubnetIds: vpc.privateSubnetIds, publicSubnetIds: vpc.publicSubnetIds,
    instanceType: "m5.large", desiredCapacity: 3, maxSize: 5, nodeAssociatePublicIpAddress: false,
});
eks.createManagedNodeGroup("m", {
    cluster, instanceTypes: ["g5.xlarge"], scalingConfig: { desiredSize: 1, minSize: 1, maxSize: 2 },
    nodeRoleArn: "arn:aws:iam::123456789012:role/nodes",
});
new awsx.ecs.FargateService("s", { desiredCount: 2, networkConfiguration: { subnets: vpc.privateSubnetIds },
    taskDefinitionArgs: { container: { name: "s", image: "nginx", cpu: 512, memory: 1024 } } });
export const kubeconfig = cluster.kubeconfig;
""",
        config="{aws:region: us-east-1}",
    )
    answer = gpufleet("cost", "estimate", "-s", "dev", "--json", cwd=root)
    document = json.loads(answer.stdout)
    by_item = Counter()
    for line in document["pools"]:
        by_item[line["pool"]] += line["usd_per_month"]
    assert by_item["vpc"] == pytest.approx(2 * 0.045 * 730 + 2 * 0.005 * 730, abs=0.02)
    assert by_item["c"] == pytest.approx(0.10 * 730 + 3 * 0.096 * 730 + 60 * 0.10, abs=0.02)
    assert by_item["m"] == pytest.approx(1.006 * 730 + 1.60, abs=0.02)  # and the disk of the image
    assert by_item["s"] == pytest.approx((0.04048 + 2 * 0.004445) * 730, abs=0.02)


def test_component_with_children_in_the_graph_is_left_alone():
    urn = "urn:pulumi:dev::p::awsx:ec2:Vpc::v"
    vpc = {"urn": urn, "type": "awsx:ec2:Vpc", "remote": True, "inputs": {}}
    child = {"urn": f"{urn}::x", "type": "aws:ec2/vpc:Vpc", "custom": True, "parent": urn, "inputs": {}}
    resources = parse_stack_state({"deployment": {"resources": [vpc, child]}})
    assert remote_component.expand_remote_components(resources) == tuple(resources)
    expanded = remote_component.expand_remote_components(resources[:1])
    assert [each.type for each in expanded].count("aws:ec2/natGateway:NatGateway") == 3


@pytest.mark.parametrize(
    ("inputs", "gateways"),
    [
        ({"natGateways": {"strategy": "Single"}}, 1),
        ({"natGateways": {"strategy": "None"}}, 0),
        ({"availabilityZoneNames": ["a", "b"]}, 2),
        ({"subnetSpecs": [{"type": "Public"}]}, 0),
        ({"subnetSpecs": [{"type": "Public"}, {"type": "Private"}]}, 3),
    ],
)
def test_gateways_of_a_vpc_follow_its_strategy(inputs, gateways):
    children = remote_component.COMPONENTS["awsx:ec2:Vpc"]("v", inputs)
    assert [type_ for type_, *_ in children].count("aws:ec2/natGateway:NatGateway") == gateways


@pytest.mark.parametrize(
    ("cpu", "memory", "size"),
    [(0, 0, (256, 512)), (512, 1024, (512, 1024)), (256, 3000, (512, 3072)), (8192, 17000, (8192, 20480))],
)
def test_task_gets_the_smallest_size_that_fargate_sells(cpu, memory, size):
    assert remote_component.choose_fargate_size(cpu, memory) == size


def test_program_gets_its_configuration_and_unknown_values_stay_unknown(make_project):
    program = (
        IMPORTS
        + RECORD
        + """
const config = new pulumi.Config();
const vpc = new aws.ec2.Vpc("vpc", { cidrBlock: "10.0.0.0/16" });
const task = aws.ecs.getTaskDefinitionOutput({ taskDefinition: "t" });
let ran = false;
task.containerDefinitions.apply(text => { ran = true; JSON.parse(text); });
vpc.id.apply(() => { ran = true; });
record(aws.getRegionOutput().name.apply(region =>
    [region, config.get("size"), config.requireObject<any>("sizes").large,
     pulumi.getStack(), pulumi.getProject(), ran]));
"""
    )
    root = make_project(
        program, config="{aws:region: eu-west-1, 'shop:size': big, 'shop:sizes': {large: m5.large}}"
    )
    assert evaluate_value(root) == ["eu-west-1", "big", "m5.large", "dev", "shop", False]


def test_transforms_of_the_program_change_what_is_registered(make_project):
    program = """
import * as pulumi from "@pulumi/pulumi";
import * as aws from "@pulumi/aws";
pulumi.runtime.registerResourceTransform(args => args.type === "aws:ec2/instance:Instance"
    ? { props: { ...args.props, instanceType: "m5.xlarge" }, opts: pulumi.mergeOptions(args.opts, { protect: true }) }
    : undefined);
new aws.ec2.Instance("node", { ami: "ami-1", instanceType: "m5.large" });
"""
    resources = cost.evaluate_program(make_project(program), "dev")
    node = next(resource for resource in resources if resource.name == "node")
    assert node.inputs["instanceType"] == "m5.xlarge"
    assert node.protect


JAVASCRIPT = (
    'const pulumi = require("@pulumi/pulumi");\nnew pulumi.CustomResource("t:m:C", "c", { value: "js" });\n'
)
MODULE = (
    'import * as pulumi from "@pulumi/pulumi";\nimport { value } from "./value.js";\n'
    'export default async () => { new pulumi.CustomResource("t:m:C", "c", { value }); };\n'
)


@pytest.mark.parametrize(
    "options",
    [
        {"program": JAVASCRIPT, "file": "index.js"},
        {
            "program": JAVASCRIPT,
            "file": "bin/app.js",
            "project": "runtime: {name: nodejs, options: {typescript: false}}\nmain: bin/app.js\n",
        },
        {
            "program": MODULE,
            "file": "index.js",
            "files": {
                "package.json": '{"type": "module", "main": "index.js"}',
                "value.js": 'export const value = "js";\n',
            },
        },
        {
            "program": JAVASCRIPT.replace('"js"', "process.env.PART ?? 'js'"),
            "file": "src/index.js",
            "project": "runtime: {name: nodejs, options: {nodeargs: --no-warnings}}\nmain: src\n",
        },
    ],
)
def test_javascript_programs_of_every_form_run(make_project, options):
    assert evaluate_value(make_project(**options)) == "js"


def test_packages_of_a_workspace_come_from_the_commit(make_project, tmp_path, node_modules):
    """A link in node_modules leads to a package of the repository: each side gets its own."""
    program = RECORD.replace("const", 'import * as pulumi from "@pulumi/pulumi";\nconst')
    root = make_project(
        program + 'import { size } from "@shop/sizes";\nrecord(size);\n',
        folder="apps/infra",
        files={
            "../../packages/sizes/package.json": '{"name": "@shop/sizes", "main": "index.js"}',
            "../../packages/sizes/index.js": 'exports.size = "small";\n',
            "../../package-lock.json": "{}",
        },
    )
    top = root.parents[1]
    (root / "node_modules").unlink()
    installed = top / "node_modules"
    installed.mkdir()
    for package in node_modules.iterdir():
        (installed / package.name).symlink_to(package)
    subprocess.run(["rm", "-rf", str(installed)], check=True)
    subprocess.run(["cp", "-al", str(node_modules), str(installed)], check=True)
    (installed / "@shop").mkdir()
    (installed / "@shop/sizes").symlink_to("../../packages/sizes")
    (top / "packages/sizes/index.js").write_text('exports.size = "large";\n')
    with evaluation.start_git_ref_comparison(root, "dev", "HEAD") as run:
        before, after = run()
    assert [next(each for each in side if each.name == "c").inputs["value"] for side in (before, after)] == [
        "small",
        "large",
    ]


def test_base_with_another_lock_file_is_refused_until_a_worktree_has_its_packages(
    make_project, tmp_path, node_modules
):
    """The packages of a branch are code: they must not evaluate the base."""
    root = make_project(
        "import * as pulumi from '@pulumi/pulumi';\n" + RECORD + "record(1);\n",
        files={"package-lock.json": '{"a": 1}'},
    )
    (root / "package-lock.json").write_text('{"a": 2}')
    with pytest.raises(InputError, match=r"the lock file differs.*git worktree add .*npm ci"):
        cost.evaluate_program(root, "dev", ref="HEAD")
    other = tmp_path / "base"
    subprocess.run(["git", "-C", str(root), "worktree", "add", "-q", "--detach", str(other)], check=True)
    (other / "node_modules").symlink_to(node_modules)
    assert evaluate_value(root, ref="HEAD") == 1


def test_committed_packages_are_those_of_the_commit(make_project):
    runner = "node_modules/@pulumi/pulumi/cmd/run/index.js"
    root = make_project("", file="index.js", files={"lib/x.js": ""})
    (root / "node_modules").unlink()
    place = root / runner
    place.parent.mkdir(parents=True)
    place.write_text("console.error('committed ' + 'runner'); process.exit(3);\n")
    (root / ".gitignore").write_text("")
    commit(root)
    with pytest.raises(InputError, match="ended early at HEAD: committed runner"):
        cost.evaluate_program(root, "dev", ref="HEAD")


@pytest.mark.parametrize("lock", ["package-lock.json", "yarn.lock", "pnpm-lock.yaml"])
def test_missing_packages_name_the_command_that_installs_them(make_project, lock):
    root = make_project("", files={lock: ""})
    (root / "node_modules").unlink()
    command = {"package-lock.json": "npm ci", "yarn.lock": "yarn install", "pnpm-lock.yaml": "pnpm install"}
    with pytest.raises(InputError, match=f"@pulumi/pulumi is not installed.*run {command[lock]}"):
        cost.evaluate_program(root, "dev")


def test_error_of_a_program_is_one_line_with_its_place(make_project):
    root = make_project("\n\nthrow new TypeError('no such size');\n")
    with pytest.raises(InputError, match=r"^index.ts:3: the Pulumi program failed: TypeError: no such size;"):
        cost.evaluate_program(root, "dev")


def test_two_resources_with_one_name_are_refused(make_project):
    root = make_project("import * as pulumi from '@pulumi/pulumi';\n" + RECORD + "record(1);\nrecord(2);\n")
    with pytest.raises(InputError, match="Duplicate resource URN"):
        cost.evaluate_program(root, "dev")


def test_missing_node_is_reported(tmp_path):
    with pytest.raises(EnvironmentFault, match="node is not on the PATH"):
        node_packages.find_node({"PATH": str(tmp_path)})


def test_key_of_a_kept_graph_changes_with_the_installed_packages(make_project, tmp_path):
    root = make_project("")
    (root / "node_modules").unlink()
    (root / "node_modules").mkdir()
    program = StackProgram(root, "dev")
    assert node_packages.describe_installed_packages(program) is None  # nothing says what is installed
    (root / "node_modules/.package-lock.json").write_text("1")
    first = node_packages.describe_installed_packages(program)
    (root / "node_modules/.package-lock.json").write_text("2")
    assert None not in {first, node_packages.describe_installed_packages(program)}
    assert first != node_packages.describe_installed_packages(program)


def test_tracked_link_to_other_files_is_not_shown_as_packages(make_project, tmp_path):
    """A branch that commits node_modules as a link shows nothing of what it leads to."""
    secret = tmp_path / "secret/node_modules"
    secret.mkdir(parents=True)
    (secret / "key").write_text("canary")
    root = make_project("")
    (root / "node_modules").unlink()
    (root / "node_modules").symlink_to(secret)
    (root / ".gitignore").write_text("")
    commit(root)
    program = StackProgram(root, "dev")
    assert node_packages.find_package_folders(program, ["index.ts", "node_modules"], root) == []
