"""Test images: Packer accepts the templates, and a local build runs the roles over SSH."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gpufleet import catalog
from gpufleet.cloud import images

PLAYS = ("image",)
ROOT = Path(__file__).parents[2]
IMAGES = ROOT / "playbooks/images"
PACKER = shutil.which("packer")
needs_packer = pytest.mark.skipif(PACKER is None, reason="packer is not installed (Debian's package packer)")


def packer(*arguments, **env):
    environment = {name: os.environ[name] for name in ("HOME", "PATH", "LANG") if name in os.environ}
    environment |= {"CHECKPOINT_DISABLE": "1", "ARM_CLIENT_SECRET": "none"} | env
    return subprocess.run(
        [PACKER, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@needs_packer
def test_packer_accepts_every_source(converge_play, lab):
    converge_play("image")
    result = packer("validate", "-var", f"host_key_file={lab.home / 'ssh/id_ed25519'}", str(IMAGES))
    assert result.returncode == 0, result.stdout + result.stderr


@needs_packer
def test_one_source_is_valid_without_credentials_of_the_others():
    """As docs/images.md has it typed."""
    only = ["validate", "-only=amazon-ebs.node"]
    result = packer(*only, str(IMAGES), ARM_CLIENT_SECRET="")
    assert result.returncode == 0, result.stdout + result.stderr
    result = packer(*only, "-var", 'ssh_from=["everywhere"]', str(IMAGES))
    assert "temporary_security_group_source_cidrs" in result.stdout + result.stderr


@needs_packer
def test_packer_refuses_invalid_cloud_settings(converge_play, lab):
    converge_play("image")
    variables = ["-var", f"host_key_file={lab.home / 'ssh/id_ed25519'}", "-var", "azure_subscription="]
    result = packer("validate", *variables, str(IMAGES))
    assert result.returncode != 0
    assert "azure" in (result.stdout + result.stderr).lower()


@needs_packer
def test_packer_templates_are_formatted():
    for folder in (IMAGES, IMAGES / "plugins"):
        result = packer("fmt", "-check", "-diff", str(folder))
        assert result.returncode == 0, result.stdout


@needs_packer
def test_build_runs_the_roles_over_ssh_with_host_key_checking(converge_play, lab):
    play = converge_play("image")
    (host,) = play.hosts
    variables = {
        "host": lab.address(host),
        "host_key_file": lab.home / "ssh/id_ed25519",
        "known_hosts": lab.home / "ssh/known_hosts",
        "host_keys": "yes",
        "name": "packer-test",
        "play": "../tests/roles/plays/image_packer.yml",
    }
    options = [option for name, value in variables.items() for option in ("-var", f"{name}={value}")]
    result = packer("build", "-color=false", "-only=null.node", *options, str(IMAGES), **lab.env())
    assert result.returncode == 0, result.stdout[-3000:]
    assert re.search(r"default +: ok=\d+ .*failed=0", result.stdout)
    facts = json.loads(lab.host(host).file("/etc/gpufleet/image.json").content_string)
    assert facts["name"].startswith("packer-test-")


def test_rehearsed_machine_is_marked_and_not_sealed(converge_play, lab):
    play = converge_play("image")
    play.assert_idempotent()
    host = lab.host(play.hosts[0])
    assert host.file("/etc/gpufleet/image.json").exists
    assert host.file("/etc/machine-id").size > 0
    assert [r.status for r in play.first.results if r.task.endswith("cloud-init's state")] == ["skipped"]


def test_machine_with_a_failed_task_becomes_no_image(converge_play, lab):
    play = converge_play("image")
    run = lab.run(
        "- name: Fail first\n  hosts: base01\n  gather_facts: false\n  tasks:\n"
        "    - name: Two\n      block:\n        - name: Break\n          ansible.builtin.fail: {msg: on purpose}\n"
        "      rescue:\n        - name: Go on\n          ansible.builtin.meta: noop\n"
        "- name: Image\n  hosts: base01\n  gather_facts: false\n  tasks:\n"
        "    - name: Mark\n      ansible.builtin.import_role: {name: gpufleet.fleet.image}\n"
    )
    assert "this machine cannot become an image: Break: on purpose" in run.failure_text(play.hosts[0])


def test_sealing_removes_machine_specific_files(converge_play, lab):
    """Run the script in a separate root file system, so that the shared host keeps its keys."""
    play = converge_play("image")
    host = lab.host(play.hosts[0])
    script = (ROOT / "modules/ansible_collections/gpufleet/fleet/roles/image/files/seal.sh").read_text()
    inside = (
        "mount -t tmpfs tmpfs /mnt && mkdir -p /mnt/ssh && cp -a /etc/ssh/. /mnt/ssh && mount --bind /mnt/ssh /etc/ssh"
        ' && cp /etc/machine-id /mnt/id && mount --bind /mnt/id /etc/machine-id && sh -c "$1"'
        " && ls /etc/ssh && wc -c < /etc/machine-id"
    )
    completed = host.run("unshare --mount sh -c %s inside %s", inside, script)
    assert completed.rc == 0, completed.stderr
    assert "took /etc/machine-id" in completed.stdout
    assert "took /etc/ssh/ssh_host_ed25519_key" in completed.stdout
    assert completed.stdout.splitlines()[-1] == "0"
    assert host.file("/etc/machine-id").size > 0


def test_base_images_match_those_of_the_pools():
    text = (IMAGES / "gpufleet.pkr.hcl").read_text()
    gcp = images.choose_gcp_image(catalog.get_machine("n1-standard-8", "gcp"))
    azure = images.choose_azure_image("base", None)
    for value in (images.CANONICAL_ON_AWS, gcp.project, gcp.family, azure.publisher, azure.offer, azure.sku):
        assert f'"{value}"' in text


def test_plugins_required_by_newer_packer_match_the_used_ones():
    used = set(re.findall(r'^source "([a-z-]+)', (IMAGES / "gpufleet.pkr.hcl").read_text(), re.MULTILINE)) - {
        "null"
    }
    declared = re.findall(r"^    (\w+) = \{", (IMAGES / "plugins/required.pkr.hcl").read_text(), re.MULTILINE)
    assert set(declared) == {kind.partition("-")[0] for kind in used} | {"ansible"}
