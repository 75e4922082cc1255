"""Test ``gpufleet init``: what it writes is valid, priced and listed at once, and what is there stays as it is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from gpufleet import __version__, fleet
from gpufleet.operations import starter_project

ROOT = Path(__file__).resolve().parents[2]
OWN_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAICnjZVo0X23w6Lv+MS0nX7ZSNB6ZUf6PUl3b3SBAbmnn ada@desk"
PARTS = ("--cloud", "aws,gcp,azure", "--rack", "blades:6,servers:2,bench:1")

POOR_CONFIG = """[defaults]
inventory = inventory/hosts.yml
callbacks_enabled = timer
inject_facts_as_vars = true
"""
POOR_CONFIG_NOTE = (
    "change inject_facts_as_vars to False; add gpufleet.fleet.registry, gpufleet.fleet.play_record, "
    "gpufleet.fleet.filter_preload to callbacks_enabled; add inventory/gpufleet.yaml to inventory"
)
GOOD_CONFIG = """[defaults]
inventory = hosts, ./inventory/gpufleet.yaml
inject_facts_as_vars = false ; needed
callbacks_enabled = gpufleet.fleet.filter_preload, gpufleet.fleet.registry, timer, gpufleet.fleet.play_record
"""


@pytest.fixture
def init(gpufleet, tmp_path):
    """Run ``gpufleet init`` for a user with a home of their own; outside of it is an empty folder, the current one."""
    home, here = tmp_path / "home", tmp_path / "here"
    home.mkdir()
    here.mkdir()

    def run(*arguments, cwd=here):
        return gpufleet("init", *arguments, cwd=cwd, env={"HOME": str(home)})

    run.home, run.here = home, here
    return run


def read_notes(result):
    assert result.returncode == 0, result.stderr
    return {outcome["path"]: outcome["note"] for outcome in json.loads(result.stdout) if outcome["note"]}


def read_files(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_new_project_has_a_valid_stack_with_everything_that_was_asked_for(init):
    result = init("fleet1", *PARTS)
    *_, next_step = result.stderr.splitlines()
    assert (result.returncode, next_step) == (0, "next: cd fleet1 && gpufleet cost estimate -s dev")
    declared = fleet.load_fleet("dev", init.here / "fleet1")
    assert [(pool.cloud, pool.machine) for pool in declared.pools] == [
        ("aws", "g4dn.xlarge"), ("gcp", "n1-standard-4"), ("azure", "Standard_NC4as_T4_v3")]  # fmt: skip
    nodes = {rack.name: [node.name for node in rack.rack.nodes] for rack in declared.racks}
    assert nodes == {
        "blades": [f"blade{number:02}" for number in range(1, 7)],
        "servers": ["gpu01", "gpu02"],
        "bench": ["bench01"],
    }
    assert sorted(path.name for path in init.here.iterdir()) == ["fleet1"]


def test_new_project_is_priced_at_once_within_its_budget(gpufleet, init):
    init("fleet1", *PARTS)
    result = gpufleet("cost", "estimate", "-s", "dev", cwd=init.here / "fleet1")
    assert result.returncode == 0, result.stderr
    assert "within the budget" in result.stdout
    assert "Without price" not in result.stdout
    assert {"aws-small", "gcp-small", "azure-small", "blades", "servers", "bench"} <= set(
        result.stdout.split()
    )


def test_ansible_lists_the_racks_nodes_with_their_login(init, clean_env):
    init("fleet1", "--rack", "blades:2")
    command = ["ansible-inventory", "-i", "inventory", "--list"]
    listed = subprocess.run(
        command, cwd=init.here / "fleet1", env=clean_env, capture_output=True, text=True, check=True
    )
    inventory = json.loads(listed.stdout)
    assert inventory["gpufleet"]["hosts"] == ["blade01", "blade02"]
    assert inventory["_meta"]["hostvars"]["blade01"]["ansible_user"] == "root"
    assert inventory["_meta"]["hostvars"]["blade01"]["ansible_host"] == "10.20.1.11"


def test_playbooks_of_the_collection_run_in_a_new_project(gpufleet, init, clean_env):
    init("fleet1", "--rack", "blades:2")
    project = init.here / "fleet1"
    assert not (project / "playbooks").exists()
    command = ["ansible-playbook", "gpufleet.fleet.site", "--list-tasks", "--limit", "blade01"]
    listed = subprocess.run(command, cwd=project, env=clean_env, capture_output=True, text=True, check=True)
    assert "gpufleet.fleet.burn_in : Measure" in listed.stdout
    # The connection stays on this machine, and the run ends before the first change.
    local = {
        "ansible_connection": "local",
        "ansible_become": False,
        "ansible_python_interpreter": sys.executable,
    }
    (project / "inventory/group_vars/rack_blades.yaml").write_text(yaml.safe_dump(local))
    settings = ("-e", "burn_in_profile=fast")
    result = gpufleet("configure", "--play", "burn_in", "--limit", "blade01", *settings, cwd=project)
    assert "burn_in_profile must be one of: quick, standard, soak, got: fast" in result.stdout
    (project / "playbooks").mkdir()
    (project / "playbooks/burn_in.yml").write_text("- hosts: all\n  gather_facts: false\n")
    result = gpufleet("configure", "--play", "burn_in", "--limit", "blade01", *settings, cwd=project)
    assert result.returncode == 0, result.stderr


def test_second_run_keeps_every_file_and_adds_what_is_missing(init):
    init("fleet1", "--cloud", "gcp", "--rack", "blades:6")
    project = init.here / "fleet1"
    (project / "README.md").write_text("ours\n")
    (project / "Pulumi.yaml").unlink()
    before = read_files(project)
    result = init("--json", cwd=project)
    outcomes = {outcome["path"]: outcome["written"] for outcome in json.loads(result.stdout)}
    assert [path for path, written in outcomes.items() if written] == ["Pulumi.yaml"]
    assert "inventory/blades.yaml" in outcomes
    after = read_files(project)
    assert after.pop(Path("Pulumi.yaml")).startswith(b"name: fleet1\n")
    assert after == before


def test_second_run_with_another_rack_names_the_line_that_the_kept_stack_needs(init):
    init("fleet1", "--rack", "blades:6")
    result = init("fleet1", "--rack", "servers:2")
    assert "written  inventory/servers.yaml" in result.stdout
    assert re.search(r"kept     stacks/Pulumi.dev.yaml +add to racks: \{name: servers\}", result.stdout)
    assert "cidr: 10.20.2.0/24" in (init.here / "fleet1/inventory/servers.yaml").read_text()


def test_first_run_says_which_budget_it_chose_and_how_to_name_a_wheel(init):
    result = init("fleet1", "--cloud", "aws", "--rack", "blades:6")
    project = init.here / "fleet1"
    declared = yaml.safe_load((project / "stacks/Pulumi.dev.yaml").read_text())["config"]["gpufleet:fleet"]
    assert result.stderr.splitlines()[0] == (
        f"budget: {declared['budget_usd_per_month']} USD a month, chosen by init for these parts: "
        "budget_usd_per_month in stacks/Pulumi.dev.yaml"
    )
    requirements = (project / "requirements.txt").read_text().splitlines()
    assert requirements[1:] == [
        f"# gpufleet[aws,registry] @ file:///FOLDER/gpufleet-{__version__}-py3-none-any.whl",
        f"gpufleet[aws,registry]=={__version__}",
    ]
    assert "not what\n# they cost" in (project / ".pre-commit-config.yaml").read_text()
    assert "--base main --policy policy.yaml" in (project / "README.md").read_text()
    assert "budget:" not in init(cwd=project).stderr


def test_rack_with_a_bmc_needs_its_extra(init):
    init("fleet1", "--rack", "servers:2")
    project = init.here / "fleet1"
    rack = project / "inventory/servers.yaml"
    rack.write_text(rack.read_text() + "bmc: {protocol: ipmi, network: {cidr: 10.99.0.0/24}}\n")
    assert read_notes(init("--json", cwd=project)) == {
        "requirements.txt": f"change the line to gpufleet[registry,bmc]=={__version__}"
    }
    (project / "requirements.txt").unlink()
    init(cwd=project)
    assert (project / "requirements.txt").read_text().endswith(f"\ngpufleet[registry,bmc]=={__version__}\n")


def test_kept_files_say_what_they_lack_of_another_request(init):
    init("fleet1", "--cloud", "aws", "--rack", "blades:6")
    project = init.here / "fleet1"
    notes = read_notes(init("--json", "--cloud", "azure,gcp", "--rack", "blades:8", cwd=project))
    assert notes == {
        "stacks/Pulumi.dev.yaml": "add to pools: azure,gcp, as in a new project of init --cloud azure,gcp",
        "inventory/blades.yaml": "has 6 nodes, not 8: change its nodes and capital_usd",
        "requirements.txt": f"change the line to gpufleet[aws,gcp,azure,registry]=={__version__}",
    }
    init("fleet1", "--rack", "servers:2")
    racks = fleet.load_racks(project / "inventory").values()
    assert sorted(str(rack.network.cidr) for rack in racks) == ["10.20.1.0/24", "10.20.2.0/24"]


@pytest.mark.parametrize(
    ("path", "text", "note"),
    [
        ("requirements.txt", "gpufleet[all]\n", ""),
        ("requirements.txt", "gpufleet[registry, mesh,aws]==9.9\n", ""),
        (
            "requirements.txt",
            "gpufleet>=0.1  # ours\n",
            "change the line to gpufleet[aws,registry]>=0.1  # ours",
        ),
        ("requirements.txt", "gpufleet-x\n", f"add the line gpufleet[aws,registry]=={__version__}"),
        (".gitignore", "*.pyc\n", "add the line .gpufleet/"),
        (".pre-commit-config.yaml", "repos: []\n", "add a local hook with `entry: gpufleet validate`"),
        (".github/workflows/cost.yml", "on: push\n", "add --policy policy.yaml to `gpufleet cost diff`"),
        ("README.md", "ours\n", ""),
        ("ansible.cfg", POOR_CONFIG, POOR_CONFIG_NOTE),
        ("ansible.cfg", GOOD_CONFIG, ""),
        ("ansible.cfg", "inventory = x\n", "cannot be read by Ansible"),
    ],
)
def test_kept_file_of_ones_own_says_what_it_lacks(init, path, text, note):
    (init.here / path).parent.mkdir(parents=True, exist_ok=True)
    (init.here / path).write_text(text)
    existing = ["--into-existing"] if path == "ansible.cfg" else []
    assert read_notes(init("--json", "--cloud", "aws", *existing)) == ({path: note} if note else {})
    assert "this page" not in (init.here / "README.md").read_text()


def test_pull_request_over_the_budget_fails_with_the_command_of_the_workflow(gpufleet, init, clean_env):
    init("fleet1", "--rack", "blades:6")
    project = init.here / "fleet1"
    steps = yaml.safe_load((project / ".github/workflows/cost.yml").read_text())["jobs"]["cost"]["steps"]
    assert "--base HEAD^1 --policy policy.yaml " in next(
        step["run"] for step in steps if "cost diff" in step.get("run", "")
    )
    identity = ("-c", "user.name=ops", "-c", "user.email=ops@example.org")
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "start"]):
        subprocess.run(["git", *command], cwd=project, env=clean_env, check=True)
    compare = ("cost", "diff", "-s", "dev", "--base", "HEAD", "--policy", "policy.yaml")
    assert gpufleet(*compare, cwd=project).returncode == 0
    rack = project / "inventory/blades.yaml"
    rack.write_text(re.sub("value: 1260", "value: 126000", rack.read_text()))
    # The branch cannot raise its own limit.
    (project / "policy.yaml").write_text("budget_usd_per_month: 100000\n")
    result = gpufleet(*compare, cwd=project)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "budget_usd_per_month" in result.stdout


def test_comments_say_what_is_there(init):
    init("fleet1", "--rack", "blades:2")
    project = init.here / "fleet1"
    assert re.search(
        r"capital_usd: +# of all nodes together\n +value: 420\n",
        (project / "inventory/blades.yaml").read_text(),
    )
    assert "group_vars/all.yml" not in (project / "ansible.cfg").read_text()


def test_page_and_output_name_every_file(init):
    result = init("fleet1", *PARTS)
    written = {str(path) for path in read_files(init.here / "fleet1")}
    page = (init.here / "fleet1/README.md").read_text()
    assert set(re.findall(r"^\| `(.+?)` \|", page, re.MULTILINE)) == written
    assert set(re.findall(r"^written  (\S+)", result.stdout, re.MULTILINE)) == written


def test_stack_has_the_users_own_key(init):
    (init.home / ".ssh").mkdir()
    (init.home / ".ssh/id_ed25519.pub").write_text(f"{OWN_KEY}\n")
    init("fleet1", "--yes")
    assert fleet.load_fleet("dev", init.here / "fleet1").ssh.authorized_keys == (OWN_KEY,)


@pytest.mark.parametrize("text", ["-----BEGIN OPENSSH PRIVATE KEY-----\n", "ssh-ed25519 AAAA\n", "\0"])
def test_damaged_key_is_replaced_by_the_example(init, text):
    (init.home / ".ssh").mkdir()
    (init.home / ".ssh/id_ed25519.pub").write_text(text)
    assert init("fleet1", "--yes").returncode == 0
    assert "example-key" in fleet.load_fleet("dev", init.here / "fleet1").ssh.authorized_keys[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a", "--cloud", "awz"], "--cloud: unknown cloud 'awz'; give aws, gcp, azure"),
        (["a", "--rack", "blade:3"], "--rack: unknown kind of rack 'blade'; give blades, servers, bench"),
        (["a", "--rack", "blades"], "--rack: blades: '' is not a number of nodes; give 1 to 200 nodes"),
        (["a", "--rack", "blades:0"], "--rack: blades:0: '0' is not a number of nodes"),
        (["a", "--rack", "blades:201"], "'201' is not a number of nodes; give 1 to 200 nodes"),
        (["a", "--rack", "blades:²"], "is not a number of nodes"),
        (["a", "--rack", "bench:1,bench:2"], "--rack: bench is given twice"),
        (["My Fleet", "--yes"], "My Fleet: cannot be the name of a project; use lowercase letters"),
        (["x\x1b[2J", "--yes"], "cannot be the name of a project"),
        (["a"], "gpufleet init: no terminal is there to ask; give --cloud, --rack or --yes"),
        (["a", "--yes", "--into-existing"], "a: has neither a Pulumi project nor Ansible's files"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_written(init, arguments, message):
    result = init(*arguments)
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
    assert message in result.stderr
    assert result.stderr.isprintable() or result.stderr.rstrip("\n").isprintable()
    assert list(init.here.iterdir()) == []


def test_file_in_the_place_of_a_folder_is_named_and_nothing_is_written(init):
    (init.here / "a").mkdir()
    (init.here / "a/inventory").touch()
    assert init("a", "--yes").returncode == 2  # it may be Ansible's
    result = init("a", "--yes", "--into-existing")
    assert result.stderr == "error: a/inventory: is not a folder; move it, then run init again\n"
    (init.here / "b").touch()
    assert "b: is not a folder" in init("b", "--yes").stderr
    assert sorted(map(str, read_files(init.here))) == ["a/inventory", "b"]


def test_symbolic_link_leads_nothing_out_of_the_project(init, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (init.here / "stacks").symlink_to(tmp_path / "elsewhere")
    result = init("--yes")
    assert result.returncode == 2
    assert "stacks: is a symbolic link" in result.stderr
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_rack_whose_nodes_are_there_already_is_refused_with_nothing_written(init):
    init("fleet1", "--rack", "blades:6")
    project = init.here / "fleet1"
    text = (project / "inventory/blades.yaml").read_text()
    (project / "inventory/blades.yaml").unlink()
    (project / "inventory/rack7.yaml").write_text(text.replace("name: blades", "name: rack7"))
    before = read_files(project)
    result = init("fleet1", "--rack", "blades:3")
    assert (result.returncode, len(result.stderr.splitlines())) == (2, 1)
    assert "inventory/rack7.yaml" in result.stderr
    assert read_files(project) == before


def test_what_is_written_is_validated_before_a_commit_and_in_ci(gpufleet, init):
    assert init("--cloud", "aws,gcp,azure", "--rack", "blades:6,servers:2,bench:1").returncode == 0
    result = gpufleet("validate", cwd=init.here)
    assert (result.returncode, result.stderr) == (0, "")
    assert ", 0 errors, " in result.stdout
    hooks = yaml.safe_load((init.here / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    steps = yaml.safe_load((init.here / ".github/workflows/cost.yml").read_text())["jobs"]["cost"]["steps"]
    assert "gpufleet validate" in [step.get("run") for step in steps]
    assert [hook["entry"] for hook in hooks] == ["gpufleet validate"]
    (init.here / "policy.yaml").write_text("budget: 5\n")
    assert "error: policy.yaml:1: " in gpufleet("validate", cwd=init.here).stdout


def test_parts_for_a_pulumi_project_leave_its_program_and_stacks(gpufleet, init):
    program = "import pulumi\nimport gpu_pools\n"
    theirs = {"Pulumi.yaml": "name: web\nruntime: {name: python}\nmain: src\n", "src/__main__.py": program,
              "requirements.txt": "requests\n", "Pulumi.prod.yaml": "config: {}\n"}  # fmt: skip
    (init.here / "src").mkdir()
    for name, text in theirs.items():
        (init.here / name).write_text(text)
    assert "add --into-existing" in init("--yes").stderr
    result = init("--into-existing", "--cloud", "aws,gcp", "--rack", "blades:2")
    assert re.search(r"kept     requirements.txt +add the line gpufleet\[aws,gcp,registry\]==", result.stdout)
    step = "next: git add src/gpu_pools.py inventory; put `import gpu_pools` into your program\n"
    assert result.stderr == step
    assert {name: (init.here / name).read_text() for name in theirs} == theirs
    assert not (init.here / "stacks").exists()
    workflow = yaml.safe_load((init.here / ".github/workflows/cost.yml").read_text())
    assert workflow["jobs"]["cost"]["strategy"]["matrix"] == {"stack": ["prod"]}
    priced = gpufleet("cost", "estimate", "-s", "prod", cwd=init.here)
    assert priced.returncode == 0, priced.stderr
    assert {"aws-small", "gcp-small", "blades"} <= set(priced.stdout.split())
    checked = gpufleet("validate", cwd=init.here)
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "the Pulumi program is not checked: gpufleet cost estimate -s STACK checks it" in checked.stdout
    assert "gpufleet validate" in (init.here / ".pre-commit-config.yaml").read_text()
    before = read_files(init.here)
    again = init("--into-existing")
    assert (again.returncode, again.stderr) == (0, step)
    assert "inventory/blades.yaml" in again.stdout
    assert read_files(init.here) == before
    more = init("--into-existing", "--cloud", "aws,azure", "--rack", "servers:1")
    assert 'add a GpuPool for azure; add Rack("servers") of gpufleet.cloud\n' in more.stdout


def test_racks_alone_are_in_the_program_of_ones_own(gpufleet, init):
    (init.here / "Pulumi.yaml").write_text("name: web\nruntime: python\n")
    (init.here / "__main__.py").write_text("import gpu_pools\n")
    assert init("--into-existing", "--rack", "servers:2").returncode == 0
    module = (init.here / "gpu_pools.py").read_text()
    assert module.endswith('from gpufleet.cloud import Rack\n\nRack("servers")  # inventory/servers.yaml\n')
    assert "servers" in gpufleet("cost", "estimate", "-s", "dev", cwd=init.here).stdout.split()


def test_pulumi_project_in_another_language_is_refused_with_the_alternative(init):
    (init.here / "Pulumi.yaml").write_text("name: web\nruntime: nodejs\n")
    result = init("--into-existing", "--yes")
    assert result.stderr.startswith("error: .: its program is nodejs, not Python; give a new folder")
    assert list(read_files(init.here)) == [Path("Pulumi.yaml")]


def test_parts_for_an_ansible_repository_keep_its_inventory(init, clean_env):
    (init.here / "inventory").mkdir()
    (init.here / "inventory/hosts").write_text("web1\n")
    assert "add --into-existing" in init("--yes").stderr
    assert init("--into-existing", "--rack", "blades:2").returncode == 0
    command = ["ansible-inventory", "-i", "inventory", "--list"]
    listed = subprocess.run(command, cwd=init.here, env=clean_env, capture_output=True, text=True, check=True)
    inventory = json.loads(listed.stdout)
    assert inventory["ungrouped"]["hosts"] == ["web1"]
    assert inventory["gpufleet"]["hosts"] == ["blade01", "blade02"]
    assert "ansible_user" not in inventory["_meta"]["hostvars"].get("web1", {})
    (init.here / "ansible.cfg").write_text("[defaults]\ninject_facts_as_vars = False\n")
    again = init("--into-existing", "--rack", "blades:2")
    assert re.search(
        r"kept     ansible.cfg +add the line callbacks_enabled = gpufleet.fleet.registry, ", again.stdout
    )


def test_terminal_is_asked_for_clouds_and_racks(init, clean_env):
    terminal, end = os.openpty()
    os.write(terminal, b"gcp\nblades:2\n")
    command = [sys.executable, "-m", "gpufleet", "init", "fleet1"]
    env = clean_env | {"HOME": str(init.home)}
    result = subprocess.run(
        command, cwd=init.here, env=env, stdin=end, capture_output=True, text=True, timeout=60, check=False
    )
    os.close(terminal)
    os.close(end)
    assert result.returncode == 0, result.stderr
    assert "Clouds, of aws, gcp and azure" in result.stderr
    declared = fleet.load_fleet("dev", init.here / "fleet1")
    assert ([pool.cloud for pool in declared.pools], [rack.name for rack in declared.racks]) == (
        ["gcp"],
        ["blades"],
    )


def test_commands_outside_of_a_project_name_init(gpufleet, tmp_path):
    for command in (["configure"], ["nodes", "sync", "-s", "dev"], ["rehearse", "status", "-s", "dev"]):
        result = gpufleet(*command, cwd=tmp_path)
        assert result.returncode == 2
        assert "or start one: gpufleet init DIR" in result.stderr


def test_what_it_writes_is_what_this_project_uses():
    settings = starter_project._read_template("group_vars.yaml.j2")
    cloud_settings = starter_project._read_template("group_vars_cloud.yaml.j2")
    assert yaml.safe_load(settings) == yaml.safe_load((ROOT / "inventory/group_vars/all.yaml").read_text())
    own = (ROOT / "inventory/group_vars/kind_cloud_vm.yaml").read_text()
    assert yaml.safe_load(cloud_settings) == yaml.safe_load(own)
    assert starter_project._read_template("program.py.j2") == (ROOT / "stacks/__main__.py").read_text()
    pins = [
        re.findall(r"uses: (\S+@.+)", text)
        for text in (
            starter_project._read_template("cost.yml.j2")
            + starter_project._read_template("cost-comment.yml.j2"),
            "".join(path.read_text() for path in (ROOT / ".github").rglob("*.yml")),
        )
    ]
    assert set(pins[0]) <= set(pins[1])


def test_workflows_have_no_finding(init):
    init("fleet1", "--yes")
    subprocess.run(
        ["git", "init", "-q", init.here / "fleet1"], check=True
    )  # actionlint looks for a repository
    command = [ROOT / ".ci/workflows", init.here / "fleet1"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_installed_wheel_starts_a_project_without_a_clone(wheel, tmp_path, clean_env):
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    (tmp_path / "here").mkdir()
    env = clean_env | {"PYTHONPATH": str(tmp_path / "installed")}
    script = "import gpufleet, sys; from gpufleet.cli import main; print(gpufleet.__file__, file=sys.stderr); main()"
    for arguments in (["init", ".", "--yes"], ["cost", "estimate", "-s", "dev"]):
        result = subprocess.run(
            [sys.executable, "-c", script, *arguments],
            cwd=tmp_path / "here", env=env, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert result.returncode == 0, result.stderr
        assert result.stderr.startswith(str(tmp_path / "installed"))
    assert "g4dn.xlarge" in result.stdout
    command = ["ansible-playbook", "-v", "gpufleet.fleet.site", "--syntax-check"]
    checked = subprocess.run(
        command, cwd=tmp_path / "here", env=env, capture_output=True, text=True, check=True
    )
    assert f"playbook: {tmp_path}/installed/ansible_collections/gpufleet/fleet/playbooks/" in checked.stdout
