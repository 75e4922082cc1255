"""Rules on the accounts of pools."""

from __future__ import annotations

from collections.abc import Iterator

from gpufleet.fleet.account import NamedAccount
from gpufleet.fleet.document import KeyPath, SpecProblem
from gpufleet.fleet.rule import SPEC_RULES
from gpufleet.fleet.spec import FleetSpec


@SPEC_RULES.register_rule(
    "account-declared",
    reason="an account must be declared under accounts, for the pool's own cloud",
    source="the spec",
)
def check_account_declared(spec: FleetSpec) -> Iterator[SpecProblem]:
    for index, pool in enumerate(spec.pools):
        account = spec.accounts.get(pool.account or "")
        path = ("pools", index, "account")
        if pool.account is not None and account is None:
            known = ", ".join(sorted(spec.accounts)) or "none is declared"
            yield SpecProblem(path, f"account {pool.account!r} is not declared", f"accounts: {known}")
        elif account is not None and account.cloud != pool.cloud:
            text = f"account {pool.account!r} is of {account.cloud}, the pool is on {pool.cloud}"
            yield SpecProblem(path, text, f"name an account of {pool.cloud}")


@SPEC_RULES.register_rule(
    "accounts-differ",
    reason="the pools of one project or subscription share a network with one name",
    source="our own naming: gpufleet-STACK",
)
def check_accounts_differ(spec: FleetSpec) -> Iterator[SpecProblem]:
    places = {
        _identify(block): f"{cloud} of the fleet"
        for cloud in NamedAccount.model_fields
        if (block := getattr(spec, cloud))
    }
    for name, account in spec.accounts.items():
        identity = _identify(getattr(account, account.cloud))
        if identity in places:
            path: KeyPath = ("accounts", name)
            yield SpecProblem(path, f"is the same as {places[identity]}", "declare each account once")
        places[identity] = f"accounts.{name}"


def _identify(block: object) -> object:
    """Return what tells an account from others of its cloud."""
    return getattr(block, "project", None) or block


@SPEC_RULES.register_rule(
    "private-account-profile",
    reason="SSH through Session Manager runs the AWS CLI, which takes a profile and no role",
    source="AWS CLI, global options: --profile; a profile in ~/.aws/config may name role_arn and source_profile",
)
def check_private_account_has_profile(spec: FleetSpec) -> Iterator[SpecProblem]:
    blocks: dict[KeyPath, object] = {("aws",): spec.aws}
    blocks |= {("accounts", name, "aws"): account.aws for name, account in spec.accounts.items()}
    for path, block in blocks.items():
        if spec.ssh.access == "private" and getattr(block, "role_arn", None):
            text = "SSH to private nodes needs a profile, and role_arn is not one"
            yield SpecProblem((*path, "role_arn"), text, "put the role into ~/.aws/config, and give profile")
