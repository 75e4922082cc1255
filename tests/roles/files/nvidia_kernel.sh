#!/bin/sh
# FAKE firmware and kernel of a booted test host, under the names of the programs that it answers for.
#
# Words: kmod 30 and mokutil 0.6.0 (Debian 12); "Key was rejected by service" is the kernel's EKEYREJECTED, as in
# github.com/secureblue/secureblue/issues/1043 and Fred78290/nct6687d/issues/99; "No such device" where nouveau holds the
# card, as in github.com/MrMEEE/ironhide/issues/41. Everything read 2026-11-22.
# "Unknown symbol" for a module that was built for another driver: github.com/NVIDIA/gds-nvidia-fs/issues/34; dkms as
# dkms(8) and its common.postinst (Debian 12), read 2026-11-23. Built modules are text: the driver they were built for.
# State: /etc/gpufleet-rehearsal/kernel with the files secure-boot, mok (absent, pending, enrolled), console (a person
# confirms the key at the next boot) and unbuilt; what is loaded is in the rehearsal's sysfs.
state=/etc/gpufleet-rehearsal/kernel sys=/etc/gpufleet-rehearsal/sys
modules=/lib/modules/$(uname -r)
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

load_other() { # a module that uses symbols of the driver's
  folder=$sys/module/$(echo "$1" | tr - _) file=$modules/updates/dkms/$1.ko
  [ ! -d "$folder" ] || return 0
  if [ ! -e "$file" ]; then
    echo "modprobe: FATAL: Module $1 not found in directory $modules" >&2; return 1
  fi
  load || return 1
  if [ "$(cat "$file")" != "$(cat $loaded/version)" ]; then
    echo "modprobe: ERROR: could not insert '${folder##*/}': Unknown symbol in module, or unknown parameter (see dmesg)" >&2
    return 1
  fi
  mkdir -p "$folder" && echo "insmod $file"
}

run_dkms() {
  verb=$1 name='' version=''; shift
  while [ $# -gt 0 ]; do
    case $1 in -m) name=$2; shift ;; -v) version=$2; shift ;; -k) shift ;; esac
    shift
  done
  tree=/var/lib/dkms/$name file=$modules/updates/dkms/$name.ko
  case $verb in
    status)
      for added in "$tree"/*/; do
        [ -d "$added" ] || continue
        added=$name/$(basename "$added")
        [ -e "$file" ] && echo "$added, $(uname -r), $(uname -m): installed" || echo "$added: added"
      done ;;
    add)
      [ -e "/usr/src/$name-$version/dkms.conf" ] || { echo "Error! Could not find module source directory." >&2; exit 2; }
      mkdir -p "$tree/$version" ;;
    build)
      [ -n "$(built)" ] || { echo "Error! Bad return status for module build on kernel: $(uname -r)" >&2; exit 10; }
      built >"$tree/$version/$name.ko"; echo "$name $(built)" >>$state/builds ;;
    install) mkdir -p "${file%/*}"; cp "$tree/$version/$name.ko" "$file" ;;
    remove) rm -rf "${tree:?}/$version" "$file" ;;
  esac
}

case $(basename "$0") in
  boot)
    rm -rf $sys/module/nvidia* $sys/module/gdrdrv $bound
    if [ "$(mok)" = pending ] && [ -e $state/console ]; then echo enrolled >$state/mok; rm $state/console; fi
    # Only the copy in the initramfs counts this early.
    grep -qsx 'blacklist nouveau' $state/initramfs/* || mkdir -p "$bound/0000:01:00.0"
    load 2>/dev/null || true
    [ ! -e /etc/modules-load.d/nvidia-fs.conf ] || load_other nvidia-fs || true ;;
  modprobe)
    [ "$1" != -v ] || shift
    if [ "$1" = nvidia ]; then load; else load_other "$1"; fi ;;
  modinfo)
    for name; do :; done # the last word
    file=$modules/updates/dkms/$name.ko
    [ "$name" != nvidia ] || file=/usr/src/fake-nvidia-open/version
    if [ ! -e "$file" ] || [ -z "$(built)" ]; then echo "modinfo: ERROR: Module $name not found." >&2; exit 1; fi
    case $1 in -F) built ;; -n) echo "$file" ;; *) echo "filename:       $file" ;; esac ;;
  dkms) run_dkms "$@" ;;
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
