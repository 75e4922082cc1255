"""The main job with a secret in every input, and the search of all that it left.

``PYTHONPATH=tests python -m canary.job`` runs it on a small stack with one blade; ``--demo production`` runs the
whole demo. Exit code 0 where no secret was found, 1 where one was.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from canary.search import Hit, Search, make_secret
from canary.watcher import Watcher

ROOT = Path(__file__).resolve().parents[2]
PARTS = ("Pulumi.yaml", "stacks", "inventory", "playbooks")
VARIABLES = (
    "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "GITHUB_TOKEN", "GITLAB_TOKEN", "ARM_CLIENT_SECRET",
    "GOOGLE_OAUTH_ACCESS_TOKEN", "PULUMI_ACCESS_TOKEN", "PULUMI_CONFIG_PASSPHRASE", "ANSIBLE_BECOME_PASSWORD",
)  # fmt: skip
INPUTS = ("vault_password", "vault_value", "extra_variable", "pulumi_secret", "database_password")
BLADE = "poc-blade01"
PLAY = """---
- name: Use the secrets
  hosts: all
  gather_facts: false
  tasks:
    - name: Write them where the node keeps them
      ansible.builtin.copy:
        content: "{{ canary_vault }}{{ canary_variable }}"
        dest: /run/canary
        mode: "0600"
    - name: Fail with them in hand
      ansible.builtin.command:
        argv: [sh, -c, "echo {{ canary_vault | quote }}; exit 1"]
      no_log: true
      ignore_errors: true
      changed_when: false
"""


@dataclass
class Job:
    """A project, its state and the secrets in its inputs; ``streams`` is all that commands printed."""

    folder: Path
    stack: str = "poc"
    secrets: dict[str, str] = field(default_factory=dict)
    streams: dict[str, bytes] = field(default_factory=dict)
    cleanup: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)

    def __post_init__(self) -> None:
        self.project, self.inputs = self.folder / "project", self.folder / "inputs"
        self.tmp, self.user = self.folder / "tmp", self.folder / "user"
        for folder in (self.project, self.inputs, self.tmp, self.user):
            folder.mkdir(parents=True)
        self.home = self.project / ".gpufleet" / "rehearsal" / self.stack
        self.secrets = {name: make_secret(name) for name in (*VARIABLES, *INPUTS)}
        self.env = self.environment()
        self.create_project()

    def environment(self) -> dict[str, str]:
        """Return an environment with a secret in every variable that may hold one."""
        scripts = str(Path(sys.executable).parent)
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
        inherited = {name: os.environ[name] for name in ("LANG", "USER") if name in os.environ}
        return (
            inherited
            | self.secrets
            | {
                "PATH": os.pathsep.join([scripts, os.environ["PATH"]]),
                "VIRTUAL_ENV": str(Path(scripts).parent),
                "XDG_CACHE_HOME": cache,
                "HOME": str(self.user),
                "TMPDIR": str(self.tmp),
            }
        )

    def create_project(self) -> None:
        """Copy the project, with a vaulted variable and a play that uses it, and commit it for `cost diff`."""
        for part in PARTS:
            source = ROOT / part
            copy = shutil.copytree if source.is_dir() else shutil.copy
            copy(source, self.project / part)
        (self.project / ".venv").symlink_to(Path(sys.executable).parents[1])
        shutil.copy(ROOT / ".gitignore", self.project)
        (self.project / "playbooks" / "canary.yml").write_text(PLAY)
        self.write_vault()
        git = [
            "git",
            "-c",
            "user.name=canary",
            "-c",
            "user.email=canary@example.org",
            "-C",
            str(self.project),
        ]
        for arguments in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "start")):
            subprocess.run([*git, *arguments], check=True, capture_output=True)

    def write_vault(self) -> None:
        """Encrypt a variable with ansible-vault; its password is in a file outside the project."""
        password = self.inputs / "vault-password"
        password.write_text(self.secrets["vault_password"] + "\n")
        self.env["ANSIBLE_VAULT_PASSWORD_FILE"] = str(password)
        result = subprocess.run(
            ["ansible-vault", "encrypt_string", "--stdin-name", "canary_vault"], input=self.secrets["vault_value"],
            capture_output=True, text=True, check=True, env=self.env,
        )  # fmt: skip
        target = self.project / "inventory" / "group_vars" / "all.yaml"
        target.write_text(f"{target.read_text()}\n{result.stdout}\n")
        variables = self.inputs / "variables.json"
        variables.write_text(json.dumps({"canary_variable": self.secrets["extra_variable"]}))
        self.variables = f"@{variables}"

    def run(self, command: str, *allowed: int, env: dict[str, str] | None = None) -> str:
        """Run a command line as a person types it; keep what it printed; return its standard output."""
        result = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command], cwd=self.project, env=self.env | (env or {}),
            stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=900,
        )  # fmt: skip
        self.streams[f"what `{command}` printed"] = result.stdout + result.stderr
        if result.returncode not in (0, *allowed):
            raise RuntimeError(f"{command} ended with {result.returncode}: {result.stderr.decode()[-1500:]}")
        return result.stdout.decode()

    def rehearsed(self, command: str, *allowed: int, env: dict[str, str] | None = None) -> str:
        """Run a command in the rehearsal's environment, with the secrets in place of what it overrides."""
        return self.run(f'eval "$(gpufleet rehearse env -s {self.stack})" && {command}', *allowed, env=env)

    def hits(self, search: Search) -> Iterator[Hit]:
        """Yield every secret in what the job left and printed; its own inputs are left out."""
        key = self.home / "ssh" / "id_ed25519"
        yield from search.files([self.project, self.tmp, self.user], excluded=[key])
        shared = [
            path for path in Path("/dev/shm").glob("*") if path.name.startswith(("gpufleet", "ansible"))
        ]
        for path in shared:
            with contextlib.suppress(OSError):
                yield from search.files([path] if path.is_dir() else [])
                if path.is_file():
                    yield from (Hit(name, str(path)) for name in search.names(path.read_bytes()))
        for place, data in self.streams.items():
            yield from (Hit(name, place) for name in search.names(data))

    def close(self) -> None:
        """End the rehearsal and the database, and remove everything."""
        with contextlib.suppress(RuntimeError, subprocess.SubprocessError):
            self.run(f"gpufleet rehearse down -s {self.stack}", 1, 2, 3)
        self.cleanup.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def small_job(job: Job) -> None:
    """Do the main job's parts on a small stack, one blade of it; every step is a command a person types."""
    inventory = job.project / "inventory" / "blades-poc.yaml"
    inventory.write_text(inventory.read_text().replace("poc-blade[01-04]", "poc-blade[01-02]"))
    job.run("gpufleet rehearse up -s poc")
    key = (job.home / "ssh" / "id_ed25519").read_text().splitlines()
    job.secrets["ssh_private_key"] = key[len(key) // 2]
    job.rehearsed("pulumi up -s poc --yes --skip-preview --suppress-progress")
    job.rehearsed("gpufleet cost estimate -s poc")
    job.rehearsed("gpufleet cost diff -s poc --base HEAD --format json > .gpufleet/change.json")
    job.rehearsed("gpufleet nodes sync -s poc")
    job.rehearsed("ansible-inventory -i inventory --graph")
    job.rehearsed(f"gpufleet configure --play commission --limit {BLADE}")
    job.rehearsed(f"gpufleet configure --play canary --limit {BLADE} -e {job.variables}", 1)
    job.rehearsed(f"gpufleet configure --play configure --limit {BLADE}", 1)
    job.rehearsed(f"gpufleet burnin run {BLADE}", 1)
    job.rehearsed("gpufleet burnin report", 1)
    job.rehearsed("gpufleet nodes list --json && gpufleet nodes show " + BLADE)
    job.rehearsed("gpufleet console --output .gpufleet/report.html --cost .gpufleet/change.json -s poc")


def secret_config(job: Job) -> None:
    """Build the stack with a secret in its Pulumi config, in a separate backend, and price and sync it."""
    value = job.inputs / "pulumi-secret"
    value.write_text(job.secrets["pulumi_secret"])
    backend = job.project / ".gpufleet" / "backend"
    backend.mkdir(parents=True, exist_ok=True)
    env = {
        "PULUMI_BACKEND_URL": backend.as_uri(),
        "PULUMI_CONFIG_PASSPHRASE": job.secrets["PULUMI_CONFIG_PASSPHRASE"],
    }
    env |= {"PULUMI_SKIP_UPDATE_CHECK": "true", "PATH": _engine_path(job.env["PATH"])}
    for command in (
        "pulumi stack init poc",
        f"pulumi config set --secret gpufleet:token -s poc < {value}",
        "pulumi up -s poc --yes --skip-preview --suppress-progress",
        "pulumi stack export -s poc > .gpufleet/state.json",
        "gpufleet cost estimate -s poc",
        "gpufleet cost diff -s poc --base HEAD --format json",
        "GPUFLEET_HOME=$PWD/.gpufleet/real gpufleet nodes sync -s poc --state .gpufleet/state.json",
    ):
        job.run(command, env=env)


def _engine_path(path: str) -> str:
    from gpufleet import engine

    installed = engine.find_pulumi_engine()
    return os.pathsep.join([path, str(installed.bin_dir)]) if installed else path


def demo(job: Job) -> None:
    """Run the whole demo with the secrets in its environment."""
    job.run(f"gpufleet rehearse demo -s {job.stack}")
    key = (job.home / "ssh" / "id_ed25519").read_text().splitlines()
    job.secrets["ssh_private_key"] = key[len(key) // 2]


def find_hits(job: Job, *parts: Callable[[Job], None]) -> tuple[list[Hit], Watcher]:
    """Run the parts while the process list is watched, then search everything."""
    with Watcher(Search(job.secrets)) as watcher:
        for part in parts:
            part(job)
    return sorted({*job.hits(Search(job.secrets)), *watcher.hits}, key=str), watcher


def database(job: Job) -> None:
    """Keep a registry in a PostgreSQL with a password, then stop it, and use a wrong URL."""
    from faults.postgres import Server, programs

    if not programs():
        return
    server = Server()
    job.cleanup.callback(server.close)
    password = quote(job.secrets["database_password"], safe="")
    server.require_password(job.secrets["database_password"])
    url = f"postgresql+psycopg://test:{password}@/registry?host={server.folder}"
    wrong_url = url.replace("test:", "test:not").replace("postgresql+psycopg://", "postgresql+psycopg:/")
    steps = (
        ("gpufleet nodes sync -s poc", url, ()),
        ("ansible-inventory -i inventory --list", url, ()),
        ("gpufleet nodes list", wrong_url, (1, 2, 3)),
        ("gpufleet nodes list", url.replace("/registry", "/absent"), (1, 2, 3)),
    )
    for command, database_url, allowed in steps:
        job.run(
            command,
            *allowed,
            env={"GPUFLEET_DATABASE_URL": database_url, "GPUFLEET_HOME": str(job.project / ".gpufleet/pg")},
        )
    server.stop("fast")
    for command in (
        "gpufleet nodes list",
        "gpufleet nodes sync -s poc",
        "ansible-inventory -i inventory --list",
    ):
        job.run(
            command,
            1,
            2,
            3,
            4,
            5,
            env={"GPUFLEET_DATABASE_URL": url, "GPUFLEET_HOME": str(job.project / ".gpufleet/pg")},
        )
    server.start()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and print what was found."""
    parser = argparse.ArgumentParser(
        prog="canary.job", description="Plant secrets, run the job, search for them"
    )
    parser.add_argument("--demo", metavar="STACK", help="run the whole demo of this stack")
    options = parser.parse_args(argv)
    job = Job(Path(tempfile.mkdtemp(prefix="gpufleet-canary-")) / "job", options.demo or "poc")
    try:
        hits, watcher = find_hits(
            job, *((demo, database) if options.demo else (small_job, secret_config, database))
        )
    finally:
        job.close()
    for hit in hits:
        print(hit)
    print(f"{len(job.secrets)} secrets, {watcher.samples} samples of the process list, {len(hits)} hits")
    return 1 if hits else 0


if __name__ == "__main__":
    sys.exit(main())
