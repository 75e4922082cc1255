#!/bin/sh
# FAKE rpi-eeprom-config: the bootloader's configuration is /etc/gpufleet-rehearsal/boot.conf.
# As with the real one, what --apply is given is in force after the next start; words as raspberrypi/rpi-eeprom has
# them (read 2026-11-21), and on a Compute Module nothing is written unless CM4_ENABLE_RPI_EEPROM_UPDATE=1.
folder=/etc/gpufleet-rehearsal
now=$folder/boot.conf
next=$folder/boot.conf.pending
[ -r "$now" ] || { echo "fake rpi-eeprom-config: $now is missing" >&2; exit 1; }
# systemd makes this folder anew at every start.
if [ -e "$next" ] && [ -z "$(find "$next" -newer /run/systemd/system)" ]; then mv "$next" "$now"; fi
case "${1-}" in
    '') cat "$now" ;;
    --apply)
        if grep -qs 'Compute Module' /sys/firmware/devicetree/base/model && [ "${CM4_ENABLE_RPI_EEPROM_UPDATE-0}" != 1 ]; then
            echo 'ERROR: rpi-eeprom-update is disabled on Compute Modules (FAKE)'
            exit 0
        fi
        cp "$2" "$next" || exit 1
        echo "Updating bootloader EEPROM (FAKE)"
        echo "config: $2"
        echo "EEPROM updates pending. Please reboot to apply the update."
        ;;
    *) echo "fake rpi-eeprom-config: only reading and --apply FILE are answered" >&2; exit 2 ;;
esac
