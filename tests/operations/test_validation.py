"""Test `gpufleet validate`: every mistake of every file in one reading, each as one good line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml
from ansible.plugins.doc_fragments import constructed, inventory_cache

from gpufleet import fleet
from gpufleet.boundary import decode_yaml
from gpufleet.errors import InputError
from gpufleet.operations import validation
from gpufleet.operations.inventory_check import NODES_OPTIONS

ROOT = Path(__file__).resolve().parents[2]

CASES = Path(__file__).parents[1] / "cases/validate"
PROJECT = yaml.safe_load((CASES / "project.yaml").read_text())
STACK = "stacks/Pulumi.acme.yaml"
MISTAKES = [
    {"file": file, **mistake}
    for file, mistakes in yaml.safe_load((CASES / "mistakes.yaml").read_text()).items()
    for mistake in mistakes
]


def make_mistake(mistake):
    """Return the text of the file with the mistake in it."""
    if "old" not in mistake:
        return mistake["new"]
    text = PROJECT[mistake["file"]]
    assert mistake["old"] in text
    return text.replace(mistake["old"], mistake["new"], 1)


@pytest.fixture
def write_project(tmp_path):
    """Write the valid project, with other texts of some files; return its folder."""

    def write(files=()):
        for name, text in {**PROJECT, **dict(files)}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


@pytest.fixture(scope="module")
def schema():
    return jsonschema.Draft202012Validator(fleet.build_stack_json_schema())


def list_lines(findings):
    return [finding.text for finding in findings]


def test_valid_project_has_no_errors(write_project):
    report = validation.validate_project(write_project())
    assert list_lines(report.errors) == []
    assert report.files == ("inventory/blades.yaml", "inventory/servers.yaml", STACK)


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake["line"][:90] for mistake in MISTAKES])
def test_mistake_is_one_line_with_its_place_and_what_is_right(write_project, mistake):
    report = validation.validate_project(write_project({mistake["file"]: make_mistake(mistake)}))
    assert report.errors[0].text == mistake["line"]
    assert len(report.errors) == mistake.get("errors", 1)
    assert all(line.isprintable() and len(line) < 330 for line in list_lines(report.errors))
    if mistake["file"].startswith(("stacks/", "inventory/")):
        assert all(finding.remedy for finding in report.errors)


def test_table_has_many_mistakes_of_stacks_and_racks():
    assert (
        len([mistake for mistake in MISTAKES if mistake["file"].startswith(("stacks/", "inventory/"))]) >= 100
    )


@pytest.mark.parametrize("mistake", [mistake for mistake in MISTAKES if "schema" in mistake])
def test_schema_refuses_what_needs_no_catalogue(schema, mistake):
    try:
        data = decode_yaml(make_mistake(mistake), STACK)
        refused = any(schema.iter_errors(data))
    except InputError:  # an editor says that it is not YAML
        refused = True
    assert ("refuses" if refused else "accepts") == mistake["schema"]


def test_schema_accepts_the_valid_stack(schema):
    assert list(schema.iter_errors(yaml.safe_load(PROJECT[STACK]))) == []


def test_all_mistakes_of_all_files_are_reported_in_one_run(write_project):
    stack = (
        PROJECT[STACK]
        .replace("owner: ml", "ower: ml")
        .replace("g5.2xlarge", "g5.2xlrage")
        .replace("count: 1\n", "count: -1\n")
        .replace("model: T4", "model: H100 SXM5 80GB")
        .replace("burn_in: quick", "burn_in: fast")
        .replace("  aws:region: us-east-1\n", "")
    )
    rack = PROJECT["inventory/servers.yaml"].replace(", bmc: false", "").replace("site: lab", "site: Lab")
    report = validation.validate_project(
        write_project(
            {
                STACK: stack,
                "stacks/Pulumi.empty.yaml": "",
                "inventory/servers.yaml": rack,
                "inventory/blades.yaml": PROJECT["inventory/blades.yaml"].replace(
                    "kind: blades", "knd: blades"
                ),
                "commitments.yaml": "commitments: 3\n",
                "gpu-cards.yaml": "cards: 3\n",
            }
        )
    )
    places = [
        f"{finding.file}:{finding.line} {finding.key.removeprefix('gpufleet:fleet.')}"
        for finding in report.errors
    ]
    assert places == [
        "commitments.yaml:1 commitments",
        "gpu-cards.yaml:1 cards",
        "inventory/blades.yaml:3 knd",
        "inventory/servers.yaml:4 site",
        "inventory/servers.yaml:9 nodes[1]",
        f"{STACK}:1 config.aws:region",
        f"{STACK}:4 ower",
        f"{STACK}:14 pools[0].machine",
        f"{STACK}:15 pools[0].count",
        f"{STACK}:23 pools[1].accelerators.model",
        f"{STACK}:24 pools[1].count",
        f"{STACK}:31 templates.small.burn_in",
        "stacks/Pulumi.empty.yaml:1 ",
    ]  # fmt: skip


def test_rule_that_needs_a_wrong_value_says_nothing(write_project):
    stack = PROJECT[STACK].replace("region: us-central1\n", "region: [us-central1]\n")
    report = validation.validate_project(write_project({STACK: stack}))
    assert [finding.key for finding in report.errors] == ["gpufleet:fleet.pools[1].region"]


def test_host_declared_in_two_files_is_reported_beside_other_mistakes(write_project):
    stack = PROJECT[STACK].replace("name: desk", "name: blade02").replace("owner: ml", "owner: ML")
    report = validation.validate_project(write_project({STACK: stack}))
    assert [(finding.line, finding.problem) for finding in report.errors] == [
        (5, "is 'ML'"),
        (27, "blade02 is also declared in inventory/blades.yaml: nodes"),
    ]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ("  gcp:project: acme-gpus\n", []),
        ("", ["no project is named, and `pulumi up` builds serve only with one"]),
    ],
)
def test_missing_google_project_is_a_warning(write_project, setting, expected):
    stack = PROJECT[STACK].replace("  gcp:project: acme-gpus\n", setting)
    report = validation.validate_project(write_project({STACK: stack}))
    assert report.errors == ()
    assert [finding.problem for finding in report.warnings if "project" in finding.problem] == expected


def test_warning_of_one_pool_names_its_line(write_project):
    stack = PROJECT[STACK].replace("on_eviction: delete, fallback: on_demand", "on_eviction: delete")
    (warning,) = validation.validate_project(write_project({STACK: stack})).warnings
    assert warning.text.startswith("stacks/Pulumi.acme.yaml:12: spot nodes without a fallback stay missing")


def test_warning_of_several_pools_names_the_line_of_the_first(write_project):
    stack = yaml.safe_load(PROJECT[STACK])
    pools = stack["config"]["gpufleet:fleet"]["pools"]
    pools[0]["purchase"] = {"kind": "spot", "on_eviction": "delete"}
    pools.append({**pools[0], "name": "second"})
    root = write_project({STACK: yaml.safe_dump(stack, sort_keys=False)})
    lines = (root / STACK).read_text().splitlines()
    first = next(
        number for number, line in enumerate(lines, 1) if line.strip() == f"- name: {pools[0]['name']}"
    )
    (warning,) = [each for each in validation.validate_project(root).warnings if "spot" in each.problem]
    assert (warning.file, warning.line) == (STACK, first)
    assert f"{pools[0]['name']}, second" in warning.problem


def test_variable_that_no_role_has_is_a_warning(write_project):
    variables = "time_sorce: chrony\ntime_zone_of_mine: UTC\ncontainer_engine_kind: '{{ engine }}'\n"
    variables_file = "inventory/group_vars/all.yaml"
    report = validation.validate_project(write_project({variables_file: variables}))
    warnings = [finding.text for finding in report.warnings if finding.file.startswith("inventory")]
    assert (list_lines(report.errors), warnings) == (
        [],
        [f"{variables_file}:1: 'time_sorce' is not a variable of the role time; did you mean 'time_source'?"],
    )


@pytest.mark.parametrize(
    "text", ["secret: !vault |\n  $ANSIBLE_VAULT;1.1\n", "$ANSIBLE_VAULT;1.1;AES256\n6162\n"]
)
def test_files_that_only_ansible_reads_are_left_to_it(write_project, text):
    report = validation.validate_project(write_project({"inventory/group_vars/all.yaml": text}))
    assert report.errors == ()


def test_cost_files_of_the_list_are_read(write_project):
    files = {
        "gpufleet-cost.yaml": "policy: policy.yaml\nprojects:\n  - {path: ., stack: acme, usage: usage.yaml}\n",
        "policy.yaml": "max_usd_per_mont: 3\n",
        "usage.yaml": "resurces: {}\n",
    }
    report = validation.validate_project(write_project(files))
    assert [f"{finding.file}:{finding.line}" for finding in report.errors] == [
        "policy.yaml:1",
        "usage.yaml:1",
    ]
    assert {"gpufleet-cost.yaml", "policy.yaml", "usage.yaml"} <= set(report.files)


def test_one_stack_leaves_the_other_files_out(write_project):
    root = write_project({"stacks/Pulumi.broken.yaml": "config: 3\n", "commitments.yaml": "- 3\n"})
    report = validation.validate_project(root, "acme")
    assert (report.errors, report.files) == ((), ("inventory/blades.yaml", STACK))


def test_stacks_of_a_program_of_ones_own_need_no_fleet(write_project):
    files = {"stacks/__main__.py": "import pulumi\n", "stacks/Pulumi.web.yaml": "config: {}\n"}
    root = write_project({**files, STACK: PROJECT[STACK].replace("owner: ml", "owner: ML")})
    report = validation.validate_project(root)
    assert [(finding.file, finding.line) for finding in report.errors] == [(STACK, 5)]


def test_options_are_those_of_the_inventory_plugin():
    # Read, not imported: Ansible's loader of collections may be installed in this process by another test.
    source = (ROOT / "modules/ansible_collections/gpufleet/fleet/plugins/inventory/nodes.py").read_text()
    own = re.search(r'^DOCUMENTATION = r?"""(.*?)"""', source, re.MULTILINE | re.DOTALL)[1]
    documentation = [
        own,
        constructed.ModuleDocFragment.DOCUMENTATION,
        inventory_cache.ModuleDocFragment.DOCUMENTATION,
    ]
    options = {name for text in documentation for name in yaml.safe_load(text).get("options", {})}
    assert len(options) > 10
    assert options <= set(NODES_OPTIONS)


def test_project_without_declarations_is_refused(tmp_path):
    with pytest.raises(InputError, match="no stack and no rack is declared; write stacks/Pulumi"):
        validation.validate_project(tmp_path)


@pytest.mark.parametrize(
    ("change", "code", "last"),
    [("", 0, "3 files, 0 errors, 0 warnings"), ("ML", 2, "3 files, 1 error, 0 warnings")],
)
def test_command_exits_with_2_on_errors(gpufleet, write_project, change, code, last):
    root = write_project({STACK: PROJECT[STACK].replace("owner: ml", f"owner: {change or 'ml'}")})
    result = gpufleet("validate", cwd=root)
    assert (result.returncode, result.stderr) == (code, "")
    assert result.stdout.splitlines()[-1] == last
    document = json.loads(gpufleet("validate", "--json", cwd=root).stdout)
    assert (document["valid"], len(document["errors"])) == (not code, 1 if code else 0)
    assert document["files"] == ["inventory/blades.yaml", "inventory/servers.yaml", STACK]


@pytest.mark.parametrize("command", ["validate", "cost estimate", "quota", "rehearse up"])
def test_file_in_place_of_a_stack_name_is_explained(gpufleet, write_project, command):
    result = gpufleet(*command.split(), "-s", STACK, cwd=write_project())
    assert result.returncode == 2
    assert result.stderr.endswith(f": {STACK} is a file, not a stack's name; write -s acme\n")


@pytest.mark.parametrize("text", ["", "# nothing yet\n", "config:\n", "other: 1\n"])
def test_program_of_an_empty_stack_names_the_file(gpufleet, write_project, text):
    program = '"""The fleet."""\nfrom gpufleet import cloud\n\ncloud.declare_stack()\n'
    root = write_project({STACK: text, "stacks/__main__.py": program})
    result = gpufleet("cost", "estimate", "-s", "acme", cwd=root)
    assert result.returncode == 2
    assert result.stderr.startswith(f"error: {STACK}")
    assert "__main__" not in result.stderr


def test_no_cloud_sdk_and_no_engine_is_imported(gpufleet, write_project):
    code = (
        "import sys; from pathlib import Path; from gpufleet.operations import validation; "
        "validation.validate_project(Path.cwd()); "
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'pulumi', 'boto3', 'google', 'azure', 'ansible', "
        "'pulumi_aws', 'sqlalchemy', 'requests'}))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=write_project(), capture_output=True, text=True, check=True
    )
    assert result.stdout == "[]\n"
