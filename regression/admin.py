"""Trained models and their accuracy, to look at; the train command makes them."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest

from regression.models import Evaluation, TrainedModel


class ReadOnlyAdmin(admin.ModelAdmin):
    """Rows that only the program writes."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False


@admin.register(TrainedModel)
class TrainedModelAdmin(ReadOnlyAdmin):
    list_display = (
        "machine",
        "stack",
        "version",
        "is_active",
        "trained_at",
        "networks",
        "points",
        "mape",
    )
    list_filter = ("is_active", "machine")
    list_select_related = ("machine", "stack")
    exclude = ("booster", "interval_errors")
    search_fields = ("machine__slug", "version")

    @admin.display(description="MAPE on unseen CNNs, %")
    def mape(self, trained: TrainedModel) -> float | None:
        """Mean absolute error on left-out CNNs."""
        unseen = trained.metrics.get("unseen_cnn")
        return unseen["mape"] if unseen else None


@admin.register(Evaluation)
class EvaluationAdmin(ReadOnlyAdmin):
    list_display = ("machine", "stack", "evaluated_at", "cnns", "mape", "coverage")
    exclude = ("points",)
    list_select_related = ("machine", "stack")

    @admin.display(description="CNNs")
    def cnns(self, evaluation: Evaluation) -> int | None:
        """How many CNNs were left out in turn."""
        return evaluation.report.get("cnns")

    @admin.display(description="MAPE on unseen CNNs, %")
    def mape(self, evaluation: Evaluation) -> float | None:
        """Mean absolute error on left-out CNNs."""
        unseen = evaluation.report.get("unseen_cnn")
        return unseen["mape"] if unseen else None

    @admin.display(description="Coverage of the 80 % interval")
    def coverage(self, evaluation: Evaluation) -> float | None:
        """Share of unseen CNNs' points inside their intervals."""
        return evaluation.report.get("interval", {}).get("coverage")
