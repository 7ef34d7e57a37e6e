"""What the API's lists have in common."""

from __future__ import annotations

from django.utils.decorators import method_decorator
from django.views.decorators.http import conditional_page
from rest_framework import generics

from predictions.api.pagination import Pages
from predictions.api.problems import ProblemDetails


@method_decorator(conditional_page, name="dispatch")
class CatalogueList(ProblemDetails, generics.ListAPIView):
    """A list that anybody may read, in pages, with filters; 304 where nothing changed."""

    pagination_class = Pages
