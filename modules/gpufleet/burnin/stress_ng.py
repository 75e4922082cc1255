"""What stress-ng's own verification says: shared by the checks that also run it."""

from __future__ import annotations

import re

from gpufleet.burnin.evidence import NOT_APPLICABLE, Raw, Reading, to_finite_number

# stress-ng(1), EXIT STATUS: 2 is a stressor that failed; the others are about options, resources and the run itself.
STRESS_NG_FAILED = 2
# A row of --metrics-brief: stressor, operations, three times, two rates. Older versions log it as info.
STRESS_NG_ROW = re.compile(r"(?:metrc|info): +\[\d+\] ([a-z][\w-]*) +(\d+)(?: +\d+\.\d+){5}")


def read_stress_ng(stress: Raw) -> dict[str, Reading]:
    """Return the stressors that failed their own verification; nothing applies where none was requested."""
    if stress.get("ran") is not True:
        return {"stress_ng_failures": NOT_APPLICABLE}
    code, text = to_finite_number(stress.get("code")), str(stress.get("text"))
    if code == STRESS_NG_FAILED:
        return {"stress_ng_failures": 1.0}
    operations = [float(count) for _, count in STRESS_NG_ROW.findall(text)]
    if code != 0:
        return {
            "stress_ng_failures": f"stress-ng exited with code {stress.get('code')}: {text.strip()[-120:]}"
        }
    if not operations or min(operations) == 0:
        return {"stress_ng_failures": "stress-ng reported no verified operation"}
    return {"stress_ng_failures": 0.0, "stress_ng_operations": min(operations)}
