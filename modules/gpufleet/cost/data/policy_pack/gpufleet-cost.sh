#!/bin/sh
# The same pack as a program, for engines whose Python host starts no packs: pulumi preview --policy-pack PACK/gpufleet-cost.sh
exec python3 "$(dirname "$0")/__main__.py" "$@"
