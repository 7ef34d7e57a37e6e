"""Addresses of the site; pages and API endpoints come from ``predictions.urls``."""

from __future__ import annotations

from django.contrib import admin
from django.urls import include, path
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView

from predictor_site.health import livez, readyz
from predictor_site.metrics import metrics

admin.site.site_header = "Epochcast"
admin.site.site_title = "Epochcast"

urlpatterns = [
    path("livez", livez, name="livez"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("admin/", admin.site.urls),
    path("api/schema/", SpectacularAPIView.as_view(), name="api-schema"),
    # The split view keeps its script in an address of its own: the policy allows none in the page.
    path("api/docs/", SpectacularSwaggerSplitView.as_view(url_name="api-schema"), name="api-docs"),
    path("", include("predictions.urls")),
]

handler400 = "predictions.views.errors.bad_request"
handler403 = "predictions.views.errors.permission_denied"
handler404 = "predictions.views.errors.page_not_found"
handler500 = "predictions.views.errors.server_error"
