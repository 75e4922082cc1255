#!/bin/sh
# How many EFA interfaces the machine has and how many libfabric can use, as name=value lines. Changes nothing.
# Usage: look.sh PCI_DEVICES
set -u
devices=$1
say() { printf '%s=%s\n' "$1" "$2"; }
cards=0
for device in "$devices"/*; do
  [ "$(cat "$device/vendor" 2> /dev/null)" = 0x1d0f ] || continue
  case $(cat "$device/device") in 0xefa*) cards=$((cards + 1)) ;; esac
done
say cards "$cards"
say module "$(if [ -d /sys/module/efa ]; then cat /sys/module/efa/version 2> /dev/null || echo inbox; else echo none; fi)"
version=$(sed -n 's/^# EFA installer version: //p' /opt/amazon/efa_installed_packages 2> /dev/null)
[ -n "$version" ] && say installer "$version"
for path in /opt/amazon/efa/bin/fi_info /usr/bin/fi_info; do
  [ -x "$path" ] || continue
  message=$("$path" -p efa -t FI_EP_RDM 2>&1)
  say status "$?"
  say fi_info "$path"
  say interfaces "$(echo "$message" | grep -c '^provider: efa')"
  echo "$message" | grep -q '^provider: efa' || say message "$(echo "$message" | grep -v '^$' | tail -n 1 | cut -c 1-200)"
  break
done
exit 0
