"""Cores, rounds and wrong answers, and the time series that was recorded under load."""

from __future__ import annotations

from dataclasses import replace

from gpufleet.burnin.evidence import (
    CheckReadings,
    Raw,
    Reading,
    build_check_readings,
    count_missing,
    drop_missing_metrics,
    list_or_empty,
    mapping_or_empty,
    to_finite_number,
)
from gpufleet.burnin.pi import decode_throttled_flags
from gpufleet.burnin.stress_ng import read_stress_ng


def read_record(raw: Raw) -> CheckReadings:
    """Count cores, rounds and wrong answers; read what the sensors saw meanwhile."""
    online, usable, rounds = (
        to_finite_number(raw.get(key)) for key in ("cores_online", "cores_usable", "rounds")
    )
    lost = raw.get("workers_lost")
    metrics = drop_missing_metrics(
        wrong_answers=to_finite_number(raw.get("wrong")),
        workers_lost=float(len(lost)) if isinstance(lost, list) else None,
        rounds_per_core=rounds / usable if rounds is not None and usable else None,
        cores_online=online,
        cores_missing=count_missing(to_finite_number(raw.get("expect_cores")), online),
    )
    stress = build_check_readings(read_stress_ng(mapping_or_empty(raw.get("stress_ng"))), None, "")
    load = build_check_readings(read_load_series(mapping_or_empty(raw.get("under_load"))), None, "")
    rate = to_finite_number(raw.get("hash_mb_per_s"))
    return replace(
        stress, metrics={**metrics, **stress.metrics, **load.metrics}, display_value=rate, unit="MB/s"
    )


def read_load_series(series: Raw) -> dict[str, Reading]:
    """Return the extremes of the time series that was recorded while the CPU was under load."""
    bits = to_finite_number(series.get("throttled_any"))
    alarms = to_finite_number(series.get("undervoltage_samples"))
    now = decode_throttled_flags(int(bits)) if bits is not None and 0 <= bits < 1 << 32 else {}
    fans = [mapping_or_empty(fan) for fan in list_or_empty(series.get("fans"))]
    counted = [(to_finite_number(fan.get("pwm")), to_finite_number(fan.get("rpm"))) for fan in fans]
    metrics = drop_missing_metrics(
        load_celsius=to_finite_number(series.get("celsius_max")),
        load_mhz=to_finite_number(series.get("mhz_min")),
        load_undervoltage=max(float(now.get("undervoltage_now", False)), float(bool(alarms)))
        if now or alarms is not None
        else None,
        load_throttled=float(now["throttled_now"] or now["frequency_capped_now"]) if now else None,
        stalled_fans=float(sum(bool(pwm) and rpm == 0 for pwm, rpm in counted)) if counted else None,
    )
    return dict(metrics)
