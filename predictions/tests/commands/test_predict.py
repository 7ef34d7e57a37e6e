"""``predict``: the same rows in three forms, and one clear line on bad input."""

from __future__ import annotations

import csv
import io
import json
import re
import subprocess
import sys

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import OperationalError

from predictions import forecast as forecast_module
from predictions.rows import ROW_KEYS


def predict(*arguments: str) -> str:
    out = io.StringIO()
    call_command("predict", *arguments, stdout=out)
    return out.getvalue()


def test_json_has_the_query_and_rows_with_the_keys_of_the_design(catalogue):
    answer = json.loads(
        predict("resnet50", "--machine", "reference-cpu", "--batch-sizes", "1-16",
                "--examples", "50000", "--format", "json")
    )  # fmt: skip
    assert answer["query"]["examples"] == 50000
    assert [list(row) for row in answer["rows"]] == [list(ROW_KEYS)] * 16
    assert [row["batch_size"] for row in answer["rows"]] == list(range(1, 17))
    assert answer["rows"][3]["epoch_seconds"] == pytest.approx(
        12_500 * answer["rows"][3]["iteration_ms"] / 1000
    )


def test_csv_has_the_rows_of_the_json(catalogue):
    arguments = ("resnet50", "mobilenet_v2", "--machine", "aws-g4dn.xlarge", "--device", "t4")
    rows = json.loads(predict(*arguments, "--format", "json"))["rows"]
    lines = list(csv.DictReader(io.StringIO(predict(*arguments, "--format", "csv"))))
    for key in ("architecture", "device", "source", "fits"):
        assert [line[key] or None for line in lines] == [row[key] for row in rows]
    assert [line["epoch_seconds"] for line in lines] == [
        "" if row["epoch_seconds"] is None else repr(row["epoch_seconds"]) for row in rows
    ]


def test_the_table_fits_a_hundred_columns_and_holds_every_row(catalogue):
    text = predict("resnet50", "--machine", "reference-cpu", "aws-p4d.24xlarge", "--machine",
                   "azure-undated", "--epochs", "90")  # fmt: skip
    lines = text.splitlines()
    assert max(map(len, lines)) <= 100
    assert "resnet50 at 224 px on reference-cpu: Reference CPU" in lines
    assert lines[1].startswith("1,281,167 examples in an epoch; 90 epochs; ")
    assert "The price is notional: that of a comparable machine." in lines
    assert sum("estimated" in line for line in lines) == 14 + 11
    assert any(re.match(r"Batch 192.*: Past a jump", line) for line in lines)


def test_machines_may_follow_one_option_or_several(catalogue):
    one = predict("resnet50", "--machine", "reference-cpu", "aws-g4dn.xlarge", "--format", "json")
    two = predict("resnet50", "--machine", "reference-cpu", "--machine", "aws-g4dn.xlarge",
                  "--format", "json")  # fmt: skip
    assert one == two


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["resnet5"], "Unknown CNN 'resnet5'. Did you mean resnet50?"),
        (["resnet50", "--machine", "refrence-cpu"], "Did you mean reference-cpu?"),
        (["resnet50", "--precision", "fp23"], "Unknown precision 'fp23': it is one of"),
        (["resnet50", "--batch-sizes", "0"], "Batch sizes are whole numbers from 1 to 4096"),
        (["resnet50", "--batch-sizes", "8-4"], "a range goes from small to large (4-8, not 8-4)"),
        (["resnet50", "--batch-sizes", "1-10000000"], "Batch sizes are whole numbers from 1"),
        (["resnet50", "--batch-sizes", ""], "Batch sizes are whole numbers from 1 to 4096"),
        (["resnet50", "--examples=-5"], "Examples must be a whole number from 1"),
        (["resnet50", "--examples", "99999999999999"], "Examples must be a whole number from 1"),
        (["resnet50", "--epochs", "0"], "Epochs must be a whole number from 1"),
        (["resnet50", "--format", "jsn"], "Unknown format 'jsn': it is one of table, json, csv."),
        ([], "Choose at least one CNN"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(catalogue, arguments, sentence):
    if "--machine" not in arguments:
        arguments = [*arguments, "--machine", "reference-cpu"]
    with pytest.raises(CommandError) as caught:
        predict(*arguments)
    assert caught.value.returncode == 2
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_a_machine(catalogue):
    with pytest.raises(CommandError, match="Choose at least one machine") as caught:
        predict("resnet50")
    assert caught.value.returncode == 2


def test_an_unprepared_database_is_told_what_to_run(catalogue, monkeypatch):
    def refuse(named):
        raise OperationalError("no such table: benchmarking_architecture")

    monkeypatch.setattr(forecast_module, "load_choices", refuse)
    with pytest.raises(CommandError, match="run script/setup first") as caught:
        predict("resnet50", "--machine", "reference-cpu")
    assert caught.value.returncode == 2


def test_plotly_and_xgboost_stay_unloaded():
    """``predict`` from the shell has 3 s; plotly and XGBoost would take most of them."""
    script = (
        "import django, sys; django.setup();"
        "import predictions.management.commands.predict, predictions.forecast;"
        "import predictions.exports, predictions.texttable;"
        "print([name for name in ('plotly', 'xgboost', 'sklearn', 'torch', 'boto3', 'paramiko')"
        " if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=settings.BASE_DIR
    )
    assert (done.stdout.strip(), done.returncode) == ("[]", 0)
