"""Quota of a stack, bucket by bucket, before anything is created.

Input: a declared fleet, and the clouds' APIs with the caller's credentials. Output: for each exact bucket (region,
family, spot or not) what the stack needs, what is used, the limit, and an increase request that is ready to send. What
could not be read is "not checked" with its reason, never "enough". Nothing is ever requested or changed.
"""

from gpufleet.operations.quota.check import check_stack_quotas
from gpufleet.operations.quota.need import list_quota_needs

__all__ = ["check_stack_quotas", "list_quota_needs"]
