#!/bin/sh
# FAKE bladectl: answers from /etc/gpufleet-rehearsal/pi.json, not from hardware.
# Commands and words as in compute-blade-community/compute-blade-agent cmd/bladectl (read 2026-11-21). Its LED is the
# file /run/gpufleet-rehearsal/led, its button the file /run/gpufleet-rehearsal/button.
facts=/etc/gpufleet-rehearsal/pi.json
state=/run/gpufleet-rehearsal
[ -r "$facts" ] || { echo "fake bladectl: $facts is missing" >&2; exit 1; }
value() { sed -n "s/^ *\"$1\": *\"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$facts"; }
mkdir -p "$state"
led=Off
[ -e "$state/led" ] && led=Active
temp=$(value temp_c)
case "$*" in
    'get status')
        echo '┌───────┬─────────────────┬────────────────────┬───────────────┬──────────────┬──────────┬───────────────┬──────────────┐'
        echo '│ Blade │ SoC Temperature │ Fan Speed Override │ Fan Speed     │ Stealth Mode │ Identify │ Critical Mode │ Power Status │'
        echo '├───────┼─────────────────┼────────────────────┼───────────────┼──────────────┼──────────┼───────────────┼──────────────┤'
        echo "│ FAKE │ ${temp%.*}°C │ Not set │ 2400 RPM($(value fan_percent)%) │ Off │ $led │ Off │ $(value supply) │"
        echo '└───────┴─────────────────┴────────────────────┴───────────────┴──────────────┴──────────┴───────────────┴──────────────┘'
        ;;
    'get identify') echo "$led" ;;
    'get power' | 'get power_status') value supply ;;
    'get temp') echo "${temp%.*}°C" ;;
    'set identify') : >"$state/led" ;;
    'set identify --wait')
        : >"$state/led"
        while [ ! -e "$state/button" ]; do sleep 0.2; done
        rm -f "$state/led" "$state/button"
        ;;
    'unset identify' | 'set identify --confirm') rm -f "$state/led" ;;
    status) echo "FAKE blade: temperature $temp C, fan $(value fan_percent) %" ;;
    *) echo "Error: unknown command \"$1\" for \"bladectl\" (fake)" >&2; exit 1 ;;
esac
