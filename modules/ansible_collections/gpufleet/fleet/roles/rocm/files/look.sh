#!/bin/sh
# What the kernel, rocminfo and amd-smi say of the cards, as name=value lines. Changes nothing.
# Usage: look.sh [ROOT]
set -u
root=${1:-}
say() { printf '%s=%s\n' "$1" "$2"; }
# The packages of 7.14 and later install below /opt/rocm/core-X.Y; older ones below /opt/rocm.
tool() {
  for path in "$root"/opt/rocm/bin/"$1" "$root"/opt/rocm/core/bin/"$1" "$root"/opt/rocm/core-*/bin/"$1" "$root/usr/bin/$1"; do
    [ -x "$path" ] && echo "$path" && return
  done
}

if [ -d "$root/sys/module/amdgpu" ]; then
  # Only amdgpu-dkms's module has a version; the kernel's own has none.
  say module "$(cat "$root/sys/module/amdgpu/version" 2> /dev/null || echo inbox)"
fi
[ -e "$root/dev/kfd" ] && say kfd "$(stat -c '%G %a' "$root/dev/kfd")"
set -- "$root"/dev/dri/renderD*
[ -e "$1" ] && say render_nodes "$#"
info=$(tool rocminfo)
if [ -n "$info" ]; then
  say rocminfo "$info"
  # Debian's rocminfo prints colours into a pipe, too.
  said=$("$info" 2>&1)
  status=$?
  said=$(echo "$said" | sed "s/$(printf '\033')\[[0-9;]*m//g")
  say rocminfo_status "$status"
  say gfx "$(echo "$said" | sed -n 's/^ *Name: *\(gfx[0-9a-f]*\).*/\1/p' | tr '\n' ' ' | sed 's/ $//')"
  [ "$status" = 0 ] || say rocminfo_message "$(echo "$said" | grep -v '^$' | tail -n 1 | cut -c 1-200)"
fi
smi=$(tool amd-smi)
if [ -n "$smi" ]; then
  said=$("$smi" version 2>&1 | head -n 1 | cut -c 1-200)
  say amd_smi "$said"
fi
exit 0
