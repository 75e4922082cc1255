"""Link speed, error share, round trips, throughput."""

from __future__ import annotations

from gpufleet.burnin.evidence import (
    CheckReadings,
    Raw,
    drop_missing_metrics,
    mapping_or_empty,
    to_finite_number,
)


def read_record(raw: Raw) -> CheckReadings:
    """Return the metrics of link, round trips and throughput.

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
