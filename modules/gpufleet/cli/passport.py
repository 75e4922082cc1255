"""``gpufleet passport``: signed statements of what a node is and how it was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpufleet.cli import output
from gpufleet.cli.group import LazyGroup

key_type = click.Path(dir_okay=False, path_type=Path)


@click.group(cls=LazyGroup)
def passport_command() -> None:
    """Sign a node's identity, results and history; verify such a file offline."""


@passport_command.command("keygen")
@click.argument("key", type=key_type)
@output.json_flag
def create_passport_key(key: Path, as_json: bool) -> None:
    """Create an Ed25519 key: KEY for yourself (mode 0600), KEY.pub for those who verify."""
    from gpufleet.operations import passport

    key_id = passport.create_key(key)
    data = {"private_key": str(key), "public_key": f"{key}.pub", "key_id": key_id}
    output.print_data(as_json, data, [f"{key} (keep it secret), {key}.pub: key {key_id}"])


@passport_command.command("issue")
@click.argument("node")
@click.option("--key", required=True, type=key_type, help="The private key to sign with.")
@output.target_option("File to write.", type=key_type, required=True)
@click.option("--by", "actor", help="Who issues it. Default: your login.")
@output.json_flag
def issue_node_passport(node: str, key: Path, out: Path, actor: str | None, as_json: bool) -> None:
    """Sign what the registry knows of a node: identity, parts, results, history."""
    from gpufleet.boundary import write_text
    from gpufleet.operations import node_change, node_view, passport

    who = node_change.find_actor(actor)
    with node_view.open_existing_registry() as registry:
        document, text = passport.issue_passport(registry, node, key, who)
    write_text(out, text)
    output.print_change(as_json, {"file": str(out)} | document, [f"{out}: {document['statement']}"])


@passport_command.command("verify")
@click.argument("file", type=key_type)
@click.option("--key", required=True, type=key_type, help="The issuer's public key (KEY.pub).")
@click.option(
    "--require-healthy",
    is_flag=True,
    help="Exit code 1 also if the node is not healthy, or the fleet not accepted.",
)
@output.json_option
def verify_node_passport(file: Path, key: Path, require_healthy: bool, as_json: bool) -> None:
    """Verify a passport or an acceptance report with nothing but the file and the issuer's public key."""
    from gpufleet.operations import acceptance, passport

    if acceptance.is_acceptance_file(file):
        document = acceptance.verify_acceptance_file(file, key, require_verdict=require_healthy)
        name: Any = f"acceptance of {document.get('pattern')}"
    else:
        document = passport.verify_passport_file(file, key, require_healthy=require_healthy)
        node = document.get("node")
        name = node.get("name") if isinstance(node, dict) else None
    if as_json:
        output.print_json(document)
        return
    output.print_lines(
        f"valid: {name}, issued {document.get('issued_at')} by {document.get('issued_by')}, key {document['key_id']}",
        f"{document.get('statement')}",
    )
