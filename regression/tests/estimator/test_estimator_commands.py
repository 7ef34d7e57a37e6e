from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
import time_machine
from django.core.management import CommandError, call_command

from regression.estimator_training import write_evaluation
from regression.stored_reports import (
    ESTIMATOR_FOLDER,
    DamagedReportError,
    stored_estimator_report,
)


def test_the_stored_report_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    call_command("evaluate_estimates", format="json")
    printed = json.loads(capsys.readouterr().out)
    stored = json.loads((ESTIMATOR_FOLDER / "evaluation.json").read_text())
    assert printed == stored
    assert [split["left_out"] for split in printed["splits"]] == [
        "networks",
        "iterations",
        "devices",
    ]


def test_the_table_names_every_split_and_the_baselines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    call_command("evaluate_estimates")
    printed = capsys.readouterr().out
    for words in (
        "Left out: networks",
        "Left out: devices",
        "v100-sxm2-16gb fp32",
        "flops over peak",
        "80 % of ratios of two batch sizes, by doublings, within: ",
        "linear in batch",
        "device ratio",
    ):
        assert words in printed


@pytest.mark.parametrize("command", ["train_estimator", "evaluate_estimates"])
def test_a_folder_without_the_data_is_refused(command: str, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="lacks conv3x3_forward") as error:
        call_command(command, data=tmp_path)
    assert error.value.returncode == 2
    with pytest.raises(CommandError, match="is not a folder"):
        call_command(command, data=tmp_path / "nowhere")


def test_an_output_that_is_a_file_is_refused_before_the_data_are_read(tmp_path: Path) -> None:
    file = tmp_path / "taken"
    file.write_text("kept")
    with pytest.raises(CommandError, match="cannot be made a folder") as error:
        call_command("train_estimator", data=tmp_path / "nowhere", output=file)
    assert error.value.returncode == 2
    assert file.read_text() == "kept"


def test_the_report_has_figures_of_groups_only() -> None:
    stored = json.loads((ESTIMATOR_FOLDER / "evaluation.json").read_text())
    for split in stored["splits"]:
        for row in split["rows"]:
            assert row["group"] in {"all", "device", "family"}
            assert "network" not in row


def test_a_report_is_stored_with_its_day(tmp_path: Path) -> None:
    with time_machine.travel(datetime(2026, 11, 29, 12, tzinfo=UTC)):
        write_evaluation(
            tmp_path, {"model_version": "estimator-1", "nominal_coverage": 0.8, "splits": []}
        )
    assert stored_estimator_report(tmp_path) == {
        "evaluated_on": "2026-11-29",
        "model_version": "estimator-1",
        "nominal_coverage": 0.8,
        "splits": [],
    }


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"splits": []}', "\x00"])
def test_a_damaged_report_is_refused_in_one_line(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regression.stored_reports.ESTIMATOR_FOLDER", tmp_path)
    (tmp_path / "evaluation.json").write_text(text)
    with pytest.raises(DamagedReportError, match="run train_estimator again"):
        stored_estimator_report()
    with pytest.raises(CommandError, match=r"^evaluation\.json .* again$") as error:
        call_command("evaluate_estimates")
    assert error.value.returncode == 2
