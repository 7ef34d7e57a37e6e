"""Pages about what can be asked for: machines and architectures."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import conditional_page, require_safe

from benchmarking.models import Architecture, Machine
from predictions.catalogue_pages import (
    MAX_QUOTATIONS,
    architecture_lines,
    facts_of,
    image_sizes_of,
    layers_of,
    machine_lines,
    machines_with_the_device_of,
    newest_quotations,
    price_of,
    similar_architecture_word,
    similar_machine_word,
)
from predictions.coverage import coverage_of
from predictions.measured import (
    iterations_measured_of,
    iterations_measured_on,
    layers_measured_on,
)
from predictions.price_chart import make_price_history

MAX_SEARCH_LENGTH = 100


@require_safe
@conditional_page
def machine_list(request: HttpRequest) -> HttpResponse:
    """Every machine with its price; ``?q=`` keeps those that hold its words."""
    search = _search_of(request)
    machines = machine_lines(search)
    context = {
        "page": "machines",
        "search": search,
        "machines": machines,
        "similar": "" if machines else similar_machine_word(search),
    }
    return _list_page(request, "predictions/machine_list.html", context)


@require_safe
@conditional_page
def machine_page(request: HttpRequest, slug: str) -> HttpResponse:
    """One machine: its device, its prices over time, what is measured on it."""
    machine = get_object_or_404(Machine.objects.select_related("device"), slug=slug)
    context = {
        "page": "machines",
        "machine": machine,
        "retired": machine.availability == Machine.Availability.RETIRED,
        "price": price_of(machine),
        "history": make_price_history(newest_quotations(machine)),
        "max_quotations": MAX_QUOTATIONS,
        "measured_layers": layers_measured_on(machine),
        "measured_iterations": iterations_measured_on(machine),
        "related": machines_with_the_device_of(machine),
    }
    return render(request, "predictions/machine.html", context)


@require_safe
@conditional_page
def architecture_list(request: HttpRequest) -> HttpResponse:
    """Every CNN; ``?q=`` keeps those that hold its words."""
    search = _search_of(request)
    architectures = architecture_lines(search)
    context = {
        "page": "architectures",
        "search": search,
        "architectures": architectures,
        "similar": "" if architectures else similar_architecture_word(search),
    }
    return _list_page(request, "predictions/architecture_list.html", context)


@require_safe
@conditional_page
def architecture_page(request: HttpRequest, slug: str, image_size: int) -> HttpResponse:
    """One CNN: its size and its convolution layers, and where they are measured."""
    architecture = get_object_or_404(
        Architecture.objects.public().defer("operations"), slug=slug, image_size=image_size
    )
    layers = layers_of(architecture)
    context = {
        "page": "architectures",
        "architecture": architecture,
        "image_sizes": image_sizes_of(slug),
        "facts": facts_of(architecture, layers),
        "layers": layers,
        "coverage": coverage_of(architecture),
        "measured_iterations": iterations_measured_of(architecture),
    }
    return render(request, "predictions/architecture.html", context)


def _search_of(request: HttpRequest) -> str:
    return request.GET.get("q", "")[:MAX_SEARCH_LENGTH].strip()


def _list_page(request: HttpRequest, template: str, context: dict[str, Any]) -> HttpResponse:
    response = render(request, template, context)
    if not context["search"]:
        # What was chosen stands in the address, and nothing else: htmx would leave an empty "?q=".
        response["HX-Replace-Url"] = request.path
    return response
