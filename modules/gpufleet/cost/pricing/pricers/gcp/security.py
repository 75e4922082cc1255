"""Secrets and certificate authorities, and the policies of Cloud Armor."""

from __future__ import annotations

from gpufleet.cost.pricing.pricers.gcp.location import pricer
from gpufleet.cost.pricing.pricers.reader import GLOBAL, Parts, Reader

CA_POOL = "gcp:certificateauthority/caPool:CaPool"
DEFAULT_RULE_PRIORITY = "2147483647"  # of the rule that every policy has
SECRET = "gcp:secretmanager/secret:Secret"  # noqa: S105 - a type


@pricer(
    "gcp:secretmanager/regionalSecretVersion:RegionalSecretVersion",
    "gcp:secretmanager/secretVersion:SecretVersion",
)
def price_secret_version(version: Reader) -> Parts:
    """Yield a version of a secret, in each place where its secret is kept: one if Google chooses them."""
    with version.within(GLOBAL).of("version") as part:
        secret = part.find_resource("secret", SECRET)
        replicas = part.reading(secret).entries("replication.userManaged.replicas") if secret else []
        yield part.part("secret_manager:version", len(replicas) or 1)
    yield version.within(GLOBAL).of("accesses").used("secret_manager:access", "monthly_access_operations")


@pricer(
    "gcp:compute/organizationSecurityPolicy:OrganizationSecurityPolicy",
    "gcp:compute/regionSecurityPolicy:RegionSecurityPolicy",
    "gcp:compute/securityPolicy:SecurityPolicy",
)
def price_security_policy(policy: Reader) -> Parts:
    """Yield a policy of Cloud Armor with its rules, and the requests that it checks."""
    place = policy.within(GLOBAL)
    yield place.of("policy").part("cloud_armor:policy")
    with place.of("rules") as rules:
        entries = rules.entries("rules", "the list of its rules")
        yield rules.part("cloud_armor:rule", sum(not _is_default(each) for each in entries))
    yield place.of("requests").used("cloud_armor:request", "monthly_requests")


@pricer(
    "gcp:compute/regionSecurityPolicyRule:RegionSecurityPolicyRule",
    "gcp:compute/securityPolicyRule:SecurityPolicyRule",
)
def price_security_rule(rule: Reader) -> Parts:
    """Yield a rule that a program declares apart from its policy."""
    if not _is_default(rule):
        yield rule.within(GLOBAL).of("rule").part("cloud_armor:rule")


def _is_default(rule: Reader) -> bool:
    return rule.find_text("priority") == DEFAULT_RULE_PRIORITY


@pricer("gcp:certificateauthority/authority:Authority")
def price_certificate_authority(authority: Reader) -> Parts:
    """Yield an authority by the tier of its pool."""
    with authority.within(GLOBAL).of("authority") as part:
        pool = part.find_resource("pool", CA_POOL)
        tier = part.reading(pool).find_text("tier") if pool else None
        if not isinstance(tier, str):
            raise part.refuse("the tier of its pool is not known")
        yield part.part(f"certificate_authority:{tier.lower()}")
