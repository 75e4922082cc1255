"""Write ``data/schema/<cloud>.json`` for every simulated cloud, from the SDKs that are installed.

With ``--google CHECKOUT``, a git checkout of hashicorp/terraform-provider-google, it writes
``data/replacements/gcp.json``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from gpufleet.rehearsal.providers.install import CLOUDS
from tools.provider_schema.aws_machines import build_aws_machines, format_machines
from tools.provider_schema.sdk_schema import build_cloud_schema, format_schema
from tools.provider_schema.terraform_source import read_google_replacements

DATA = Path(__file__).resolve().parents[2] / "modules/gpufleet/rehearsal/providers/data"


def main(arguments: list[str]) -> int:
    """Generate the named clouds, by default all of them."""
    if arguments[:1] == ["--google"]:
        found = read_google_replacements(Path(arguments[1]), build_cloud_schema("gcp"))
        types = ",\n".join(
            f"{json.dumps(token)}: {json.dumps(fields)}" for token, fields in found["types"].items()
        )
        text = f'{{\n"source": {json.dumps(found["source"])},\n"types": {{\n{types}\n}}\n}}\n'
        (DATA / "replacements" / "gcp.json").write_text(text)
        return 0
    if not arguments:
        (DATA / "machines" / "aws.json").write_text(format_machines(build_aws_machines()))
    for cloud in arguments or CLOUDS:
        text = format_schema(build_cloud_schema(cloud))
        (DATA / "schema" / f"{cloud}.json").write_text(text)
        print(f"{cloud}.json: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
