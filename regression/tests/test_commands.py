"""train, evaluate and load_models as a person calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from benchmarking.models import Machine
from benchmarking.tests.factories import create_cpu_machine
from regression.models import Evaluation, TrainedModel
from regression.tests.builders import measured_machine, store_trained_model
from regression.tests.synthetic import make_networks
from regression.trained import load_fitted

pytestmark = pytest.mark.django_db

NETWORKS = make_networks(3)


@pytest.fixture
def machine() -> Machine:
    return measured_machine(NETWORKS)


def failure(*arguments: str) -> str:
    with pytest.raises(CommandError) as raised:
        call_command(*arguments)
    assert raised.value.returncode == 2
    message = str(raised.value)
    assert "\n" not in message
    return message


def test_train_says_what_it_made(machine: Machine, capsys) -> None:
    call_command("train", "--machine", "local")
    version = TrainedModel.objects.get().version
    printed = capsys.readouterr().out
    assert printed.startswith(
        f"local · torch 2.14.1 · fp32 · 1 thread: model {version} from 3 CNNs"
    )
    assert "12 iterations, unseen CNNs off by" in printed


def test_evaluate_prints_the_contracts_json(machine: Machine, capsys) -> None:
    call_command("evaluate", "--format", "json")
    answer = json.loads(capsys.readouterr().out)
    assert list(answer) == ["machines"]
    (entry,) = answer["machines"]
    assert list(entry) == [
        "machine",
        "device",
        "stack",
        "cnns",
        "points",
        "run_variability_pct",
        "unseen_cnn",
        "unseen_family",
        "paper_method",
        "interval",
    ]
    assert (entry["machine"], entry["device"]) == ("local", "local-cpu")
    assert (entry["cnns"], entry["points"]) == (3, 12)
    assert list(entry["unseen_cnn"]) == ["mape", "median_ape", "p90_ape"]
    assert entry["interval"]["nominal"] == 0.8


def test_evaluate_prints_a_table(machine: Machine, capsys) -> None:
    call_command("evaluate", "--machine", "local")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "local · torch 2.14.1 · fp32 · 1 thread · 3 CNNs, 12 iterations"
    assert [line[:38].strip() for line in lines[2:5]] == [
        "one CNN left out",
        "its whole family left out",
        "original's method, one CNN left out",
    ]
    assert lines[5].startswith("80 % interval: holds ")
    assert lines[5].endswith(" % wide")


def test_evaluate_reads_the_stored_report_until_the_data_change(machine: Machine, capsys) -> None:
    call_command("evaluate")
    Evaluation.objects.update(report={**Evaluation.objects.get().report, "cnns": 12345})
    capsys.readouterr()
    call_command("evaluate")
    assert "12345 CNNs" in capsys.readouterr().out
    call_command("evaluate", "--again")
    assert "3 CNNs" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_an_unknown_machine_is_one_clear_line(command: str, machine: Machine) -> None:
    assert failure(command, "--machine", "lokal") == (
        "Unknown machine 'lokal' (did you mean local?)."
    )


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_a_machine_without_timings_is_one_clear_line(command: str) -> None:
    create_cpu_machine()
    assert failure(command, "--machine", "local") == (
        "No whole iterations were timed on local: use benchmark or import_measurements first."
    )


def test_an_unknown_format_is_one_clear_line(machine: Machine) -> None:
    assert failure("evaluate", "--format", "jsn") == (
        "Unknown format 'jsn': it is one of table, json (did you mean json?)."
    )


class TestModelFiles:
    @pytest.fixture
    def path(self, machine: Machine, tmp_path: Path) -> Path:
        """The file of a model of ten networks, and a database without it."""
        store_trained_model(machine, networks=10)
        from regression.model_files import export_model

        path = export_model(TrainedModel.objects.get(), tmp_path)
        assert path.name == "local-torch-2.14.1-fp32.json"
        return path

    def test_a_loaded_model_forecasts_as_the_exported_one(self, path: Path, capsys) -> None:
        exported = TrainedModel.objects.get()
        evaluation = Evaluation.objects.get()
        before = load_fitted(exported).iterations
        TrainedModel.objects.all().delete()
        Evaluation.objects.all().delete()
        call_command("load_models", str(path))
        assert "1 models loaded, 0 were there already" in capsys.readouterr().out
        loaded = TrainedModel.objects.get()
        assert loaded.is_active
        assert loaded.booster == exported.booster and len(loaded.booster) > 1000
        assert loaded.trained_at == exported.trained_at
        assert loaded.interval_errors == exported.interval_errors
        assert load_fitted(loaded).iterations.to_state() == before.to_state()
        assert Evaluation.objects.get().report == evaluation.report
        assert Evaluation.objects.get().points == evaluation.points
        assert Evaluation.objects.get().evaluated_at == exported.trained_at
        assert len(evaluation.points) == 40

    def test_a_second_time_changes_nothing(self, path: Path, capsys) -> None:
        call_command("load_models", str(path))
        assert "0 models loaded, 1 were there already" in capsys.readouterr().out
        assert TrainedModel.objects.count() == 1

    def test_a_model_that_was_trained_later_stays(self, path: Path) -> None:
        TrainedModel.objects.update(version="1-newer", trained_at="2099-01-01T00:00:00Z")
        call_command("load_models", str(path))
        assert TrainedModel.objects.get().version == "1-newer"

    def test_an_older_model_is_replaced(self, path: Path) -> None:
        TrainedModel.objects.update(version="1-older", trained_at="2020-01-01T00:00:00Z")
        call_command("load_models", str(path))
        active = TrainedModel.objects.get(is_active=True)
        assert active.version != "1-older"
        assert TrainedModel.objects.count() == 2

    @pytest.mark.parametrize(
        ("spoil", "message"),
        [
            (lambda content: {**content, "schema": 9}, "reads model files of schema 1, not 9"),
            (lambda content: {**content, "machine": "mars"}, "unknown machine 'mars'"),
            (lambda content: {**content, "booster": "AAAA"}, "not a model file"),
            (lambda content: {**content, "stack": {}}, "lacks a whole stack"),
            (
                lambda content: {k: v for k, v in content.items() if k != "coefficients"},
                "lacks coefficients",
            ),
            (lambda content: {**content, "trained_at": "yesterday"}, "not a model file"),
            (lambda content: [content], "not a model file"),
        ],
    )
    def test_a_file_that_cannot_be_used_stores_nothing(self, path: Path, spoil, message) -> None:
        TrainedModel.objects.all().delete()
        path.write_text(json.dumps(spoil(json.loads(path.read_text()))))
        assert message in failure("load_models", str(path))
        assert not TrainedModel.objects.exists()

    def test_a_missing_or_truncated_file_is_one_clear_line(self, path: Path) -> None:
        path.write_text(path.read_text()[:1000])
        assert f"{path}: not a model file" in failure("load_models", str(path))
        assert "not a model file" in failure("load_models", str(path.parent / "none.json"))

    def test_train_exports(self, machine: Machine, tmp_path: Path, capsys) -> None:
        call_command("train", "--export", str(tmp_path / "models"))
        content = json.loads((tmp_path / "models" / "local-torch-2.14.1-fp32.json").read_text())
        assert content["machine"] == "local"
        assert content["evaluation"]["cnns"] == 3
