"""What a forecast says about measuring, beside the quote of a job that would do it."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from django.conf import settings as django_settings

from benchmarking.catalogue.architectures import store_traced_files
from benchmarking.catalogue.loading import load_catalogue
from benchmarking.jobs.proposal import HostKind, JobRequest, propose_job
from benchmarking.models import Architecture, Machine
from benchmarking.tracing.fixture import load_traced_file
from predictions.forecast import load_choices, make_forecast
from predictions.measuring import count_layers, measuring_effort
from predictions.query import parse_query

FIXTURES = Path(django_settings.BASE_DIR) / "fixtures"
NETWORKS = ("resnet50", "vgg16", "mobilenet_v2", "densenet121", "squeezenet1_0")
MACHINES = ("aws-g4dn.xlarge", "aws-g5.xlarge", "aws-g6.xlarge", "aws-p3dn.24xlarge")
FACTOR = 3


@pytest.fixture
def shipped(db, settings) -> None:
    """The shipped catalogue and a few of the shipped CNNs; a job may cost what it costs."""
    settings.EC2_REGIONS = []
    settings.BENCHMARK_USD_PER_JOB = Decimal(1000)
    traced = load_traced_file(FIXTURES / "architectures.json")
    networks = [each for each in traced.networks if each.slug in NETWORKS]
    store_traced_files([replace(traced, networks=networks)])
    load_catalogue(FIXTURES / "catalogue")


@pytest.mark.parametrize("slug", MACHINES)
def test_u4_forecast_and_quote_agree_on_time_and_money(shipped, slug):
    parameters = {"architecture": list(NETWORKS), "machine": [slug]}
    forecast = make_forecast(parse_query(parameters, load_choices()))
    layers = count_layers(forecast.series)
    assert len(forecast.series) == len(NETWORKS)
    for series in forecast.series:
        effort = measuring_effort(series, layers)
        request = JobRequest(
            machine=Machine.objects.get(slug=slug),
            architectures=(Architecture.objects.with_layers().get(pk=series.architecture.pk),),
            host_kind=HostKind.EC2,
        )
        quote = propose_job(request).quote
        seconds = quote.boot_seconds + quote.expected_seconds
        assert quote.boot_seconds == 240
        assert seconds / FACTOR < effort.seconds < seconds * FACTOR
        usd = float(quote.expected_usd)
        assert usd / FACTOR < effort.usd < usd * FACTOR
        # Booting is most of it: what is left agrees as well.
        measuring = effort.seconds - quote.boot_seconds
        assert quote.expected_seconds / FACTOR < measuring < quote.expected_seconds * FACTOR
