#!/bin/sh
# STAND-IN for the Compute Blade's bladectl: answers from /etc/gpufleet-rehearsal/pi.json, not from hardware.
facts=/etc/gpufleet-rehearsal/pi.json
[ -r "$facts" ] || { echo "stand-in bladectl: $facts is missing" >&2; exit 1; }
value() { sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$facts"; }
case "${1-}" in
    status) echo "STAND-IN blade: temperature $(value temp_c) C, fan $(value fan_percent) %" ;;
    *) echo "stand-in bladectl: only 'status' is answered" >&2; exit 1 ;;
esac
