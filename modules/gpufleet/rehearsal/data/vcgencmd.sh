#!/bin/sh
# FAKE vcgencmd: answers from /etc/gpufleet-rehearsal/pi.json, not from hardware.
facts=/etc/gpufleet-rehearsal/pi.json
[ -r "$facts" ] || { echo "fake vcgencmd: $facts is missing" >&2; exit 1; }
value() { sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$facts"; }
case "${1-}" in
    get_throttled) echo "throttled=$(value throttled)" ;;
    measure_temp) echo "temp=$(value temp_c)'C" ;;
    *) echo 'error=1 error_msg="Command not registered"'; exit 255 ;;
esac
