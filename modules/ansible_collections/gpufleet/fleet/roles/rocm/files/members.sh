#!/bin/sh
# Puts users into the groups of the GPU's device files. Says `added USER GROUP` or `missing USER`.
# Usage: members.sh trial|apply "GROUP…" USER…
set -eu
mode=$1 groups=$2
shift 2
for user in "$@"; do
  if ! id -u "$user" > /dev/null 2>&1; then
    echo "missing $user"
    continue
  fi
  for group in $groups; do
    if ! getent group "$group" > /dev/null; then
      echo "missing $group"
    elif ! id -Gn "$user" | tr ' ' '\n' | grep -qx "$group"; then
      [ "$mode" = trial ] || usermod --append --groups "$group" "$user"
      echo "added $user $group"
    fi
  done
done
