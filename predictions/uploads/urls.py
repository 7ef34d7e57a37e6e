"""Addresses of networks that people bring; the token in them is a secret."""

from __future__ import annotations

from django.urls import path

from predictions.uploads.views import ask_to_measure, delete, keep, network_page, upload_page

urlpatterns = [
    path("architectures/own/", upload_page, name="upload"),
    path("own/<str:token>/", network_page, name="own-network"),
    path("own/<str:token>/keep/", keep, name="own-network-keep"),
    path("own/<str:token>/delete/", delete, name="own-network-delete"),
    path("own/<str:token>/measure/", ask_to_measure, name="own-network-measure"),
]
