"""Pages about what can be asked for: machines and architectures."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.views.decorators.http import conditional_page, require_safe

from benchmarking.models import Architecture, Machine
from predictions.catalogue_pages import (
    architecture_lines,
    image_sizes_of,
    layers_of,
    machine_lines,
    measured_for,
    measured_on,
    price_history,
)

MAX_SEARCH_LENGTH = 100


@require_safe
@conditional_page
def machine_list(request: HttpRequest) -> HttpResponse:
    """Every machine with its price; ``?q=`` keeps those that hold its words."""
    search = request.GET.get("q", "")[:MAX_SEARCH_LENGTH].strip()
    context = {"page": "machines", "search": search, "machines": machine_lines(search)}
    return render(request, "predictions/machine_list.html", context)


@require_safe
@conditional_page
def machine_page(request: HttpRequest, slug: str) -> HttpResponse:
    """One machine: its device, its prices over time, what is measured on it."""
    machine = get_object_or_404(Machine.objects.select_related("device"), slug=slug)
    context = {
        "page": "machines",
        "machine": machine,
        "retired": machine.availability == Machine.Availability.RETIRED,
        "prices": price_history(machine),
        "measured": measured_on(machine),
    }
    return render(request, "predictions/machine.html", context)


@require_safe
@conditional_page
def architecture_list(request: HttpRequest) -> HttpResponse:
    """Every CNN; ``?q=`` keeps those that hold its words."""
    search = request.GET.get("q", "")[:MAX_SEARCH_LENGTH].strip()
    context = {
        "page": "architectures",
        "search": search,
        "architectures": architecture_lines(search),
    }
    return render(request, "predictions/architecture_list.html", context)


@require_safe
@conditional_page
def architecture_page(request: HttpRequest, slug: str, image_size: int) -> HttpResponse:
    """One CNN: its size, its convolution layers, where it is measured."""
    architecture = get_object_or_404(
        Architecture.objects.public().defer("operations"), slug=slug, image_size=image_size
    )
    context = {
        "page": "architectures",
        "architecture": architecture,
        "image_sizes": image_sizes_of(slug),
        "layers": layers_of(architecture),
        "measured": measured_for(architecture),
    }
    return render(request, "predictions/architecture.html", context)
