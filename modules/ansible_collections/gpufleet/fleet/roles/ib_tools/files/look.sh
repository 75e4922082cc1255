#!/bin/sh
# Every RDMA port as one line: DEVICE PORT LAYER STATE PHYSICAL RATE DOWNED RECOVERED, `-` for what there is not.
# From the kernel's own files (Documentation/ABI/stable/sysfs-class-infiniband), as ibstat reads them. EFA devices
# are another role's.
# Usage: look.sh [SYSFS]
set -u
sysfs=${1:-/sys}
one() { head -n 1 "$1" 2> /dev/null | sed 's/^[0-9]*: *//; s/ .*$//' | grep . || echo -; }
for port in "$sysfs"/class/infiniband/*/ports/*; do
  [ -d "$port" ] || continue
  device=${port%/ports/*}
  [ "$(one "$device/device/vendor")" = 0x1d0f ] && continue
  echo "${device##*/} ${port##*/} $(one "$port/link_layer") $(one "$port/state") $(one "$port/phys_state")" \
    "$(one "$port/rate") $(one "$port/counters/link_downed") $(one "$port/counters/link_error_recovery")"
done
