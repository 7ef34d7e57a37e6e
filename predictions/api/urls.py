"""Addresses under ``/api/v1/``."""

from __future__ import annotations

from django.urls import path

from predictions.api.jobs import (
    JobCancel,
    JobDetail,
    JobEventList,
    JobList,
    JobQuoteView,
    JobRetry,
)
from predictions.api.problems import NoSuchEndpoint
from predictions.api.timings import IterationTimingList, LayerTimingList
from predictions.api.views import (
    AdviceView,
    ArchitectureList,
    DeviceList,
    EvaluationList,
    MachineList,
    PredictionsView,
    PriceList,
)
from predictions.uploads.api import OwnNetworkView, UploadView

urlpatterns = [
    path("predictions/", PredictionsView.as_view(), name="api-predictions"),
    path("advice/", AdviceView.as_view(), name="api-advice"),
    path("architectures/", ArchitectureList.as_view(), name="api-architectures"),
    path("devices/", DeviceList.as_view(), name="api-devices"),
    path("machines/", MachineList.as_view(), name="api-machines"),
    path("prices/", PriceList.as_view(), name="api-prices"),
    path("uploads/", UploadView.as_view(), name="api-uploads"),
    path("uploads/<str:token>/", OwnNetworkView.as_view(), name="api-upload"),
    path("evaluations/", EvaluationList.as_view(), name="api-evaluations"),
    path("timings/layers/", LayerTimingList.as_view(), name="api-layer-timings"),
    path("timings/iterations/", IterationTimingList.as_view(), name="api-iteration-timings"),
    path("jobs/", JobList.as_view(), name="api-jobs"),
    path("jobs/quote/", JobQuoteView.as_view(), name="api-job-quote"),
    path("jobs/<uuid:pk>/", JobDetail.as_view(), name="api-job"),
    path("jobs/<uuid:pk>/events/", JobEventList.as_view(), name="api-job-events"),
    path("jobs/<uuid:pk>/cancel/", JobCancel.as_view(), name="api-job-cancel"),
    path("jobs/<uuid:pk>/retry/", JobRetry.as_view(), name="api-job-retry"),
    path("<path:rest>/", NoSuchEndpoint.as_view()),
]
