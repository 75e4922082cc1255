#!/bin/sh
# Which devices the toolkit offers to containers, as name=value lines. Changes nothing.
# Usage: look.sh nvidia|amd [ROOT]
set -u
vendor=$1 root=${2:-}
say() { printf '%s=%s\n' "$1" "$2"; }

case $vendor in
  nvidia) tool=nvidia-ctk driver=/proc/driver/nvidia/version why="no NVIDIA driver is loaded" ;;
  amd) tool=amd-ctk driver=/dev/kfd why="there is no /dev/kfd: no amdgpu driver with compute is loaded" ;;
esac
if ! command -v "$tool" > /dev/null; then
  say installed no
  exit 0
fi
say installed yes
# `NVIDIA Container Toolkit CLI version 1.19.1`; `AMD Container Toolkit CLI version 1.2.0`
say version "$("$tool" --version 2> /dev/null | sed -n 's/.* version v\{0,1\}\([0-9][0-9.]*\).*/\1/p' | head -n 1)"
# nvidia-ctk lists names only; amd-ctk puts the device files below each name.
listed=$("$tool" cdi list 2> /dev/null) || say failed "$tool cdi list ended with status $?"
say devices "$(echo "$listed" | grep -o '^[a-z]*\.com/[a-z]*=[^ ]*' | tr '\n' ' ' | sed 's/ $//')"
[ -e "$root$driver" ] || say why "$why"
# Two specifications of one vendor name the same devices, and an engine then refuses both.
count=0
for folder in /etc/cdi /var/run/cdi; do
  for spec in "$root$folder"/*; do
    [ -f "$spec" ] && grep -q "$vendor\.com/gpu" "$spec" && count=$((count + 1))
  done
done
say specifications "$count"
