"""From curves to rows: golden arithmetic, notes, limits, and how many queries it takes."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchmarking.models import Architecture, Price
from benchmarking.tests.factories import create_price
from predictions import curves
from predictions.forecast import load_choices, make_forecast
from predictions.query import BATCH_SIZE_LADDER, ForecastQuery, QueryError
from predictions.rows import ROW_KEYS, ForecastRow
from predictions.tests.fakes import fake_curve

KEYS_OF_THE_DESIGN = """
    architecture machine device precision image_size batch_size
    iteration_ms iteration_ms_low iteration_ms_high images_per_second bound_by
    epoch_seconds total_seconds usd_per_hour price_kind price_region price_as_of total_cost_usd
    memory_mib fits source measured_share stack model_version note
""".split()

# What the stand-in for regression says of ResNet-50 on a T4: 10 ms and this per example.
T4_MS_PER_EXAMPLE = 6 * 4_089_284_608 / (8.1 * 0.5e12) * 1000


def forecast_rows(query: ForecastQuery) -> list[ForecastRow]:
    return make_forecast(query).rows


def row_at(rows: list[ForecastRow], batch_size: int) -> ForecastRow:
    return next(row for row in rows if row.batch_size == batch_size)


def test_a_row_has_the_keys_of_the_design_in_their_order():
    assert list(ROW_KEYS) == KEYS_OF_THE_DESIGN
    assert [field.name for field in fields(ForecastRow)] == KEYS_OF_THE_DESIGN


class TestArithmetic:
    def test_epoch_total_and_cost(self, ask):
        query = ask(architecture="resnet50", machine="aws-g4dn.xlarge", batch_sizes="30",
                    examples="1000", epochs="3")  # fmt: skip
        (row,) = forecast_rows(query)
        iteration_ms = 10 + 30 * T4_MS_PER_EXAMPLE
        assert row.iteration_ms == pytest.approx(iteration_ms)
        # 1000 examples in batches of 30 are 34 iterations, the last one not full.
        assert row.epoch_seconds == pytest.approx(34 * iteration_ms / 1000)
        assert row.total_seconds == pytest.approx(3 * 34 * iteration_ms / 1000)
        assert row.total_cost_usd == pytest.approx(3 * 34 * iteration_ms / 1000 / 3600 * 0.526)
        assert row.images_per_second == pytest.approx(30 / (iteration_ms / 1000))
        assert (row.usd_per_hour, row.price_kind, row.price_region, row.price_as_of) == (
            0.526, "on-demand", "us-east-1", "2026-01-01")  # fmt: skip

    def test_golden_numbers(self, ask):
        """Worked by hand: 10 ms + 8 x 6.0582 ms; 157 iterations; at $0.526 an hour."""
        query = ask(architecture="resnet50", machine="aws-g4dn.xlarge", batch_sizes="8",
                    examples="1256", epochs="10")  # fmt: skip
        (row,) = forecast_rows(query)
        assert row.iteration_ms == pytest.approx(58.4657, abs=1e-3)
        assert row.epoch_seconds == pytest.approx(9.17912, abs=1e-4)
        assert row.total_seconds == pytest.approx(91.7912, abs=1e-3)
        assert row.total_cost_usd == pytest.approx(0.0134117, abs=1e-6)

    def test_the_interval_is_that_of_the_curve(self, ask):
        (row,) = forecast_rows(
            ask(architecture="resnet50", machine="aws-g4dn.xlarge", batch_sizes="8")
        )
        assert row.iteration_ms_low == pytest.approx(0.7 * row.iteration_ms)
        assert row.iteration_ms_high == pytest.approx(1.3 * row.iteration_ms)

    def test_an_input_pipeline_bounds_what_is_faster_than_it(self, ask):
        query = ask(architecture="resnet50", machine="aws-g4dn.xlarge", batch_sizes="1,32",
                    loader_images_per_second="100")  # fmt: skip
        one, many = forecast_rows(query)
        assert one.bound_by == "host"
        assert one.iteration_ms == pytest.approx(10 + T4_MS_PER_EXAMPLE)
        assert many.bound_by == "loader"
        assert many.iteration_ms == pytest.approx(320)
        assert many.images_per_second == pytest.approx(100)
        # The pipeline is slower than even the slow end of the interval.
        assert (many.iteration_ms_low, many.iteration_ms_high) == (320, 320)

    def test_adamw_and_amp_reach_the_curve(self, ask, regression):
        query = ask(architecture="resnet50", machine="aws-g4dn.xlarge", precision="amp",
                    optimizer="adamw", batch_sizes="8")  # fmt: skip
        (row,) = forecast_rows(query)
        assert row.precision == "amp"
        assert row.iteration_ms == pytest.approx(10 + 8 * T4_MS_PER_EXAMPLE / 2)


class TestBatchSizes:
    def test_without_a_choice_the_ladder_goes_up_to_what_fits(self, ask):
        rows = forecast_rows(ask(architecture="resnet50", machine="aws-g4dn.xlarge"))
        assert [row.batch_size for row in rows] == [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128]
        assert {row.fits for row in rows} == {"yes"}

    def test_u4_a_chosen_batch_size_that_does_not_fit_keeps_its_times(self, ask):
        (row,) = forecast_rows(
            ask(architecture="resnet50", machine="aws-g4dn.xlarge", batch_sizes="2048")
        )
        assert row.fits == "no"
        assert row.iteration_ms is not None and row.total_cost_usd is not None

    def test_a_batch_size_that_cannot_train_has_a_note_and_no_time(self, ask):
        one, two = forecast_rows(
            ask(architecture="mobilenet_v2", machine="aws-g4dn.xlarge", batch_sizes="1,2")
        )
        assert one.iteration_ms is None and one.total_cost_usd is None
        assert one.note == "BatchNorm cannot train on a single value"
        assert two.iteration_ms is not None and two.note is None

    def test_unknown_memory_shows_the_whole_ladder(self, ask, catalogue):
        device = catalogue["aws-g4dn.xlarge"].device
        device.usable_memory_mib = None
        device.save()
        rows = forecast_rows(ask(architecture="resnet50", machine="aws-g4dn.xlarge"))
        assert [row.batch_size for row in rows] == list(BATCH_SIZE_LADDER)
        assert {row.fits for row in rows} == {"unknown"}

    @pytest.mark.parametrize("sizes", [(128, 192, 256), (128, 256), (96, 200, 300)])
    def test_u5_past_a_jump_there_is_a_note_whatever_sizes_are_shown(self, ask, sizes):
        rows = forecast_rows(
            ask(
                architecture="resnet50",
                machine="aws-g4dn.xlarge",
                batch_sizes=",".join(map(str, sizes)),
            )
        )
        warning = "Past a jump: batch size 128 is faster per example"
        assert [row.note for row in rows] == [
            warning if row.batch_size >= 160 else None for row in rows
        ]


class TestSeveral:
    def test_rows_come_by_cnn_then_machine_then_batch_size(self, ask):
        rows = forecast_rows(
            ask(
                architecture=["mobilenet_v2", "resnet50"],
                machine=["reference-cpu", "aws-g4dn.xlarge"],
                batch_sizes="4,2",
            )
        )
        assert [(row.architecture, row.machine, row.batch_size) for row in rows] == [
            (cnn, machine, size)
            for cnn in ("mobilenet_v2", "resnet50")
            for machine in ("reference-cpu", "aws-g4dn.xlarge")
            for size in (2, 4)
        ]

    def test_u4_a_machine_that_cannot_do_it_gets_one_empty_row(self, ask):
        rows = forecast_rows(
            ask(
                architecture="resnet50",
                machine=["aws-g4dn.xlarge", "aws-p4d.24xlarge"],
                precision="tf32",
                batch_sizes="8,16",
            )
        )
        refused, *answered = rows
        assert refused.to_json() == {
            **dict.fromkeys(ROW_KEYS),
            "architecture": "resnet50",
            "machine": "aws-g4dn.xlarge",
            "device": "t4",
            "precision": "tf32",
            "image_size": 224,
            "usd_per_hour": 0.526,
            "price_kind": "on-demand",
            "price_region": "us-east-1",
            "price_as_of": "2026-01-01",
            "fits": "unknown",
            "note": "NVIDIA T4 has no tf32: it has fp32 and amp",
        }
        assert [row.machine for row in answered] == ["aws-p4d.24xlarge"] * 2
        assert all(row.iteration_ms for row in answered)

    def test_a_machine_that_nothing_is_known_of_gets_one_empty_row(self, ask, monkeypatch):
        def refuse(architecture, place, precision, optimizer, batch_sizes):
            curve = fake_curve(architecture, place, precision, optimizer, batch_sizes)
            nothing = [None] * len(batch_sizes)
            return replace(
                curve,
                iteration_ms=nothing,
                low_ms=nothing,
                high_ms=nothing,
                sources=nothing,
                notes=["Not covered: 53 of 53 layers have no timings."] * len(batch_sizes),
            )

        monkeypatch.setattr(curves, "compute_curve", refuse)
        (row,) = forecast_rows(
            ask(architecture="resnet50", machine="reference-cpu", batch_sizes="1-64")
        )
        assert (row.batch_size, row.iteration_ms, row.total_cost_usd) == (None, None, None)
        assert row.note == (
            "Not covered: 53 of 53 layers have no timings; memory would end at batch 64; "
            "the price is notional: that of a comparable machine"
        )

    def test_the_default_precision_is_resolved_per_device(self, ask):
        rows = forecast_rows(
            ask(
                architecture="resnet50",
                machine=["aws-g4dn.xlarge", "aws-p4d.24xlarge", "reference-cpu"],
                batch_sizes="8",
            )
        )
        assert [row.precision for row in rows] == ["fp32", "tf32", "fp32"]

    def test_a_cnn_not_traced_at_the_size_gets_one_empty_row(self, ask):
        rows = forecast_rows(
            ask(
                architecture=["resnet50", "inception_v3"],
                machine="reference-cpu",
                image_size="299",
                batch_sizes="8",
            )
        )
        assert [(row.image_size, row.note) for row in rows] == [
            (299, "The layers of resnet50 are not known at 299 px"),
            (299, "The price is notional: that of a comparable machine"),
        ]

    def test_the_usual_size_of_inception_is_299(self, ask):
        rows = forecast_rows(
            ask(architecture=["resnet50", "inception_v3"], machine="reference-cpu", batch_sizes="8")
        )
        assert [row.image_size for row in rows] == [224, 299]

    def test_a_device_alone_has_times_and_no_price(self, ask):
        (row,) = forecast_rows(ask(architecture="resnet50", device="t4", batch_sizes="8"))
        assert (row.machine, row.device) == (None, "t4")
        assert row.iteration_ms is not None
        assert (row.usd_per_hour, row.total_cost_usd, row.note) == (None, None, None)


class TestPrices:
    @pytest.mark.parametrize(
        ("machine", "note"),
        [
            ("aws-g4dn.xlarge", None),
            ("reference-cpu", "The price is notional: that of a comparable machine"),
            ("aws-old.xlarge", "This machine can no longer be rented"),
            ("azure-undated", "Nobody knows how old the price is"),
            ("gcp-unpriced", "No on-demand price is known for this machine in us-east-1"),
        ],
    )
    def test_what_is_odd_about_a_price_stands_in_the_note(self, ask, machine, note):
        (row,) = forecast_rows(ask(architecture="resnet50", machine=machine, batch_sizes="8"))
        assert row.note == note

    def test_another_cloud_is_priced_in_its_own_region(self, ask):
        (row,) = forecast_rows(
            ask(architecture="resnet50", machine="azure-undated", batch_sizes="8")
        )
        assert (row.price_region, row.usd_per_hour, row.price_as_of) == ("eastus", 0.02, None)

    def test_a_region_of_the_provider_without_a_price_of_this_machine(self, ask, catalogue):
        create_price(machine=catalogue["aws-p4d.24xlarge"], usd_per_hour="25", region="eu-west-1")
        rows = forecast_rows(
            ask(
                architecture="resnet50",
                machine=["aws-g4dn.xlarge", "aws-p4d.24xlarge"],
                region="eu-west-1",
                batch_sizes="8",
            )
        )
        assert [row.usd_per_hour for row in rows] == [None, 25.0]
        assert rows[0].note == "No on-demand price is known for this machine in eu-west-1"

    def test_spot_prices_are_asked_for_by_name(self, ask, catalogue):
        create_price(machine=catalogue["aws-g4dn.xlarge"], usd_per_hour="0.2", kind=Price.Kind.SPOT)
        (row,) = forecast_rows(
            ask(architecture="resnet50", machine="aws-g4dn.xlarge", price="spot", batch_sizes="8")
        )
        assert (row.usd_per_hour, row.price_kind) == (0.2, "spot")


class TestLimits:
    def test_u3_rows_beyond_a_limit_are_left_out(self, ask):
        everything = forecast_rows(ask(architecture="resnet50", machine="aws-g4dn.xlarge"))
        limit = row_at(everything, 16).total_cost_usd
        rows = forecast_rows(
            ask(architecture="resnet50", machine="aws-g4dn.xlarge", max_usd=repr(limit))
        )
        assert rows == [row for row in everything if row.total_cost_usd <= limit]
        assert len(rows) < len(everything)

    def test_hours_and_memory(self, ask):
        everything = forecast_rows(ask(architecture="resnet50", machine="aws-g4dn.xlarge"))
        rows = forecast_rows(
            ask(
                architecture="resnet50",
                machine="aws-g4dn.xlarge",
                max_hours="2.5",
                max_memory_gib="4",
            )
        )
        assert rows == [
            row
            for row in everything
            if row.total_seconds <= 2.5 * 3600 and row.memory_mib <= 4 * 1024
        ]
        assert rows

    def test_where_nothing_stays_within_there_is_one_row_that_says_so(self, ask):
        (row,) = forecast_rows(
            ask(architecture="resnet50", machine="aws-g4dn.xlarge", max_usd="0.01")
        )
        assert row.batch_size is None and row.iteration_ms is None
        assert row.note.startswith("Nothing stays within $0.01: the least is $")

    @pytest.mark.parametrize(
        ("limits", "note"),
        [
            ({"max_usd": "0.5"}, r"Nothing stays within \$0\.50: the least is \$\d\.\d\d"),
            ({"max_hours": "0.001"}, r"Nothing stays within 0\.001 hours: the least is \S+ hours"),
            (
                {"max_usd": "1000", "epochs": "90000"},
                r"Nothing stays within \$1,000: the least is \$\d{2,3},\d{3}",
            ),
        ],
    )
    def test_amounts_of_limits_are_written_as_people_write_them(self, ask, limits, note):
        (row,) = forecast_rows(ask(architecture="resnet50", machine="aws-g4dn.xlarge", **limits))
        assert re.fullmatch(note, row.note), row.note
        # Whoever then asks for as much as that gets an answer.
        (name,) = limits.keys() - {"epochs"}
        least = re.search(r"least is \$?([0-9.,]+)", row.note).group(1).replace(",", "")
        rows = forecast_rows(
            ask(architecture="resnet50", machine="aws-g4dn.xlarge", **(limits | {name: least}))
        )
        assert rows[0].iteration_ms

    def test_an_unpriced_machine_cannot_keep_to_a_budget(self, ask):
        (row,) = forecast_rows(ask(architecture="resnet50", machine="gcp-unpriced", max_usd="1000"))
        assert row.note == "Nothing is known to stay within $1,000"


class TestQueries:
    def count(self, query) -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            make_forecast(query)
        return len(captured)

    def test_the_number_of_queries_does_not_grow_with_the_question(self, ask):
        small = ask(architecture="resnet50", machine="aws-g4dn.xlarge", batch_sizes="8")
        large = ask(
            architecture=["resnet50", "mobilenet_v2", "inception_v3"],
            machine=["aws-g4dn.xlarge", "aws-p4d.24xlarge", "reference-cpu", "azure-undated"],
            batch_sizes="1-64",
        )
        make_forecast(small)
        make_forecast(large)
        assert self.count(small) == self.count(large) == 4

    def test_the_names_of_a_query_take_four_queries(self, catalogue, django_assert_num_queries):
        with django_assert_num_queries(4):
            load_choices()


def test_a_cnn_that_went_away_since_is_a_query_error(ask):
    query = ask(architecture="resnet50", machine="reference-cpu")
    Architecture.objects.filter(slug="resnet50").delete()
    with pytest.raises(QueryError, match="Unknown CNN 'resnet50'"):
        forecast_rows(query)
