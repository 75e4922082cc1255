from __future__ import annotations

import pytest

from gpufleet.sizing.memory.constants import load_memory_constants, override_memory_constants
from tools.memory_calibration import fit
from tools.memory_calibration.accuracy import (
    build_memory_accuracy_report,
    compare_out_of_memory_reports,
    nearest_rank_quantile,
)
from tools.memory_calibration.fit import (
    INITIAL_VALUES,
    cross_validate_memory,
    fit_memory_constants,
    predict_memory_gib,
)
from tools.memory_calibration.measurement import load_memory_measurements


def test_errors_on_held_out_sources_are_within_the_goal():
    lines, _ = build_memory_accuracy_report()
    overall = next(line for line in lines if line.name == "all")
    assert overall.rows >= 50
    assert overall.median <= 0.10
    assert overall.p90 <= 0.30


def test_every_device_class_is_reported_or_pooled():
    lines, _ = build_memory_accuracy_report()
    assert all(line.rows >= 10 and line.median <= 0.10 and line.p90 <= 0.30 for line in lines)


@pytest.mark.parametrize("line", compare_out_of_memory_reports(), ids=lambda line: line.id)
def test_prediction_agrees_with_every_report_of_a_model_that_fits_or_not(line):
    assert line.is_prediction_correct, f"{line.gib:.1f} of {line.usable_gib:.1f} GiB; {line.source}"


def test_predictions_exclude_their_own_source(monkeypatch):
    seen: list[set[str]] = []

    def spied(rows):
        seen.append({row.group for row in rows})
        return INITIAL_VALUES

    monkeypatch.setattr(fit, "fit_memory_constants", spied)
    groups = [prediction.row.group for prediction in cross_validate_memory()]
    for group, others in zip(dict.fromkeys(groups), seen, strict=True):
        assert group not in others


def test_stored_constants_match_the_fit():
    rows = [row for row in load_memory_measurements() if row.fits is None and "unusable" not in row.notes]
    fitted = fit_memory_constants([row for row in rows if row.metric != "weight_file_gib"])
    assert {name: load_memory_constants()[name] for name in fitted} == fitted


def test_every_row_has_a_source():
    for row in load_memory_measurements():
        assert row.source, row.id
        assert row.workload.model.parameters > 0


def test_overridden_constants_are_restored_after_the_block():
    row = next(row for row in load_memory_measurements() if row.id == "M272")
    before = predict_memory_gib(row)
    with override_memory_constants(activation_scale=2.0):
        assert predict_memory_gib(row) > before
    assert predict_memory_gib(row) == before


@pytest.mark.parametrize(("share", "value"), [(0.5, 5), (0.9, 9), (0.91, 10), (1.0, 10), (0.0, 1)])
def test_percentile_is_computed(share, value):
    assert nearest_rank_quantile(range(1, 11), share) == value


def test_other_formula_is_evaluated_on_the_same_rows():
    lines, _ = build_memory_accuracy_report(
        {"half of it": lambda row: row.gib / 2, "no answer": lambda _row: None}
    )
    half, none = lines[-2:]
    assert (half.median, half.p90) == (0.5, 0.5)
    assert none.rows == 0


def test_unusable_measurements_are_listed_with_a_reason():
    (row,) = filter(fit.is_unusable, load_memory_measurements())
    assert (row.id, row.fits) == ("M360", None)
    assert "neither the card nor the batch size is known" in row.notes
    assert row.id not in {prediction.row.id for prediction in cross_validate_memory()}
