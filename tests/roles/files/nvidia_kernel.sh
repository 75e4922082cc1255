#!/bin/sh
# FAKE firmware and kernel of a booted test host, under the names of the programs that it answers for.
#
# Words: kmod 30 and mokutil 0.6.0 (Debian 12); "Key was rejected by service" is the kernel's EKEYREJECTED, as in
# github.com/secureblue/secureblue/issues/1043 and Fred78290/nct6687d/issues/99; "No such device" where nouveau holds the
# card, as in github.com/MrMEEE/ironhide/issues/41. Everything read 2026-11-22.
# State: /etc/gpufleet-rehearsal/kernel with the files secure-boot, mok (absent, pending, enrolled), console (a person
# confirms the key at the next boot) and unbuilt; what is loaded is in the rehearsal's sysfs.
state=/etc/gpufleet-rehearsal/kernel sys=/etc/gpufleet-rehearsal/sys
loaded=$sys/module/nvidia bound=$sys/bus/pci/drivers/nouveau
mok() { cat $state/mok 2>/dev/null || echo absent; }

built() { # the version that DKMS built: that of the module's package
  [ ! -e $state/unbuilt ] && sed 's/-.*//' /usr/src/fake-nvidia-open/version 2>/dev/null
}

load() {
  [ ! -d $loaded ] || return 0
  version=$(built)
  if [ -z "$version" ]; then
    echo "modprobe: FATAL: Module nvidia not found in directory /lib/modules/$(uname -r)" >&2; return 1
  elif [ -e $state/secure-boot ] && [ "$(mok)" != enrolled ]; then
    echo "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service" >&2; return 1
  elif [ -d $bound ]; then
    echo "modprobe: ERROR: could not insert 'nvidia': No such device" >&2; return 1
  fi
  mkdir -p $loaded && echo "$version" >$loaded/version
}

case $(basename "$0") in
  boot)
    rm -rf $loaded $bound
    if [ "$(mok)" = pending ] && [ -e $state/console ]; then echo enrolled >$state/mok; rm $state/console; fi
    # Only the copy in the initramfs counts this early.
    grep -qsx 'blacklist nouveau' $state/initramfs/* || mkdir -p "$bound/0000:01:00.0"
    load 2>/dev/null || true ;;
  modprobe) load ;;
  modinfo)
    built | grep . || { echo "modinfo: ERROR: Module $3 not found." >&2; exit 1; } ;;
  update-initramfs) rm -rf $state/initramfs; cp -r /etc/modprobe.d $state/initramfs ;;
  systemd-detect-virt) echo none; exit 1 ;;
  mokutil)
    case $1 in
      --sb-state) [ -e $state/secure-boot ] && echo "SecureBoot enabled" || echo "SecureBoot disabled" ;;
      --test-key)
        case $(mok) in
          enrolled) echo "$2 is already enrolled"; exit 1 ;;
          pending) echo "$2 is already in the enrollment request"; exit 1 ;;
          *) echo "$2 is not enrolled" ;;
        esac ;;
      --import) read -r one; read -r two; [ "$one" = "$two" ] && echo pending >$state/mok ;;
    esac ;;
esac
