"""Compute a check's metrics from its raw record; pure, and never trusting the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from gpufleet.burnin import (
    amd_readings,
    card_readings,
    drive_readings,
    gpu_readings,
    hardware,
    nccl,
    nvidia_smi,
    pi,
    system_readings,
    version_consistency,
    xid,
)
from gpufleet.burnin.evidence import (
    CheckReadings,
    Raw,
    build_check_readings,
    count_missing,
    drop_missing_metrics,
    list_or_empty,
    mapping_or_empty,
    to_finite_number,
)


def extract_configuration_metrics(raw: Raw) -> CheckReadings:
    """Whether the base configuration went through, as the registry or the playbook says."""
    state = raw.get("configured")
    return CheckReadings({"failures": 0.0 if state else 1.0}) if isinstance(state, bool) else CheckReadings()


def extract_cpu_metrics(raw: Raw) -> CheckReadings:
    """Cores, rounds and wrong answers."""
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
    stress = build_check_readings(
        system_readings.read_stress_ng(mapping_or_empty(raw.get("stress_ng"))), None, ""
    )
    load = build_check_readings(
        system_readings.read_load_series(mapping_or_empty(raw.get("under_load"))), None, ""
    )
    rate = to_finite_number(raw.get("hash_mb_per_s"))
    return replace(
        stress, metrics={**metrics, **stress.metrics, **load.metrics}, display_value=rate, unit="MB/s"
    )


def extract_network_metrics(raw: Raw) -> CheckReadings:
    """Link speed, error share, round trips, throughput.

    A peer that answers nothing, is busy or refuses is another party's failure: nothing was measured.
    """
    link, trips, rate = (mapping_or_empty(raw.get(key)) for key in ("link", "round_trip", "throughput"))
    sent, lost, speed = (
        to_finite_number(trips.get("sent")),
        to_finite_number(trips.get("lost")),
        to_finite_number(link.get("speed_mbit")),
    )
    errors = [to_finite_number(link.get(key)) for key in ("rx_errors", "tx_errors", "rx_crc_errors")]
    packets = sum(to_finite_number(link.get(key)) or 0.0 for key in ("rx_packets", "tx_packets"))
    mbit = to_finite_number(rate.get("mbit"))
    lost_share = lost / sent if lost is not None and sent and lost < sent else None
    metrics = drop_missing_metrics(
        lost=None if lost_share is None else lost,
        lost_share=lost_share,
        round_trip_ms=to_finite_number(trips.get("median_ms")),
        # Drivers of virtual links answer -1: they do not know.
        speed_mbit=speed if speed is not None and speed > 0 else None,
        error_share=sum(value or 0.0 for value in errors) / packets if packets else None,
        throughput_mbit=mbit,
        peer_mbit=mbit if rate.get("method") != "loopback" else None,
    )
    silent = f"no answer from {str(raw.get('peer'))[:80]}: it is down, or a firewall drops the packets"
    missing = {"lost": silent, "lost_share": silent} if sent and lost_share is None else {}
    if "error" in rate:
        missing["throughput_mbit"] = f"{str(rate.get('method'))[:40]}: {str(rate['error'])[:200]}"
    return CheckReadings(metrics, metrics.get("round_trip_ms"), "ms", missing_reasons=missing)


def extract_pi_throttling_metrics(raw: Raw) -> CheckReadings:
    """Read the firmware's flags, one metric each."""
    bits = pi.parse_throttled_bits(str(raw.get("text", "")))
    if bits is None:
        return CheckReadings(unreadable=f"not the output of get_throttled: {str(raw.get('text'))[:60]!r}")
    flags = {name: float(is_set) for name, is_set in pi.decode_throttled_flags(bits).items()}
    return CheckReadings(
        {**flags, "undocumented_bits": float(pi.count_undocumented_bits(bits))}, f"{bits:#x}", "flags"
    )


def extract_pi_temperature_metrics(raw: Raw) -> CheckReadings:
    """Degrees Celsius of the SoC."""
    celsius = pi.parse_vcgencmd_celsius(str(raw.get("text", "")))
    if celsius is None:
        return CheckReadings(unreadable=f"not the output of measure_temp: {str(raw.get('text'))[:60]!r}")
    return CheckReadings({"celsius": celsius}, celsius, "°C")


def extract_crash_metrics(raw: Raw) -> CheckReadings:
    """Count how often the node went down under load since the last attempt that ended."""
    count = float(len(list_or_empty(raw.get("crashes"))))
    return CheckReadings({"crashes_under_load": count}, count, "crashes")


READERS: dict[str, Callable[[Raw], CheckReadings]] = {
    "configuration": extract_configuration_metrics,
    "crash": extract_crash_metrics,
    "clock": system_readings.extract_clock_metrics,
    "hardware": hardware.extract_hardware_metrics,
    "versions": version_consistency.extract_versions_metrics,
    "cpu": extract_cpu_metrics,
    "memory": system_readings.extract_memory_metrics,
    "storage": drive_readings.extract_storage_metrics,
    "network": extract_network_metrics,
    "pi_throttled": extract_pi_throttling_metrics,
    "pi_temperature": extract_pi_temperature_metrics,
    "nvme_link": drive_readings.extract_nvme_link_metrics,
    "smart": drive_readings.extract_smart_metrics,
    "gpu_compute": gpu_readings.extract_gpu_compute_metrics,
    "gpu_memory": gpu_readings.extract_gpu_memory_metrics,
    "gpu_copy": gpu_readings.extract_gpu_copy_metrics,
    "gpu_nvidia": nvidia_smi.extract_nvidia_gpu_metrics,
    "gpu_xid": xid.extract_xid_metrics,
    "nccl": nccl.extract_nccl_metrics,
    "gpu_amd": amd_readings.extract_amd_gpu_metrics,
    "gpu_hip": card_readings.extract_gpu_hip_metrics,
    "gpu_vulkan": card_readings.extract_gpu_vulkan_metrics,
}


def extract_check_metrics(check_name: str, raw: Raw) -> CheckReadings:
    """Return a check's metrics; none for a check without a reader in READERS."""
    reader = READERS.get(check_name)
    return reader(raw) if reader else CheckReadings()
