"""Read a site's rules of the kernel log (`burn-in-kernel-log.yaml`), checked like the shipped ones."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from gpufleet.boundary import decode_yaml, validate_with_pydantic
from gpufleet.burnin.kernel_rule import XID_RULE, KernelRule
from gpufleet.errors import InputError

MAX_SITE_RULES = 200


class SiteRuleFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    rules: Annotated[tuple[KernelRule, ...], Field(max_length=MAX_SITE_RULES)]


def parse_kernel_rules(text: str, where: str) -> tuple[KernelRule, ...]:
    """Return the rules of a site's file; anything wrong is one InputError with its place."""
    document = decode_yaml(text, where)
    if not isinstance(document, dict):
        raise InputError("must be a mapping with the key rules", where=where, remedy="see docs/burn-in.md")
    rules = validate_with_pydantic(SiteRuleFile, document, where).rules
    seen: set[str] = set()
    for number, rule in enumerate(rules):
        key = f"rules.{number}"
        if rule.id in seen:
            raise InputError(f"two rules have the id {rule.id}", where=where, key=f"{key}.id")
        if rule.outcome == XID_RULE:
            remedy = "use fatal, review, application or record"
            raise InputError(
                "only the shipped rule decides XIDs", where=where, key=f"{key}.outcome", remedy=remedy
            )
        if not rule.example:
            remedy = "write one line of the log that the rule is for"
            raise InputError("a rule must have an example", where=where, key=key, remedy=remedy)
        seen.add(rule.id)
    return rules
