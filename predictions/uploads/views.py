"""Pages of networks that people bring: the form, the private page, its buttons."""

from __future__ import annotations

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt, csrf_protect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchmarking.models import Machine
from benchmarking.onnx_import.errors import LARGEST_FILE_BYTES, UploadError
from benchmarking.onnx_import.reader import UNFOLDED_EXPORT
from predictions.cards import make_answers
from predictions.catalogue_pages import facts_of, layers_of
from predictions.coverage import coverage_of, machines_to_ask_for
from predictions.forecast import load_choices, make_forecast
from predictions.form import EXAMPLE_EPOCHS, example_parameters
from predictions.measuring import efforts_by_machine
from predictions.query import parse_query
from predictions.uploads.forms import UploadForm
from predictions.uploads.models import OwnNetwork
from predictions.uploads.services import (
    TOO_LARGE,
    TOO_LARGE_SENTENCE,
    UploadBusyError,
    delete_network,
    find_network,
    keep_network,
    request_measurement,
    upload_network,
)
from predictions.uploads.throttling import UploadThrottle

# Boundaries and the other field come on top of the file.
LARGEST_REQUEST_BYTES = LARGEST_FILE_BYTES + 2**20
BUSY_SECONDS = 5
MAX_MACHINE_LENGTH = 80


class NoSuchLink(Http404):
    """A private link that is wrong, was deleted or has expired."""

    title = "No such private network"
    text = (
        "The link may be mistyped, the network may have been deleted, or its 30 days are over. "
        "Upload the file again to get a new link."
    )


@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
@never_cache
def upload_page(request: HttpRequest) -> HttpResponse:
    """The form; a file that is far too large is refused before a byte of it is read.

    The check for forged requests reads the body, so it comes after the check of its length.
    """
    if int(request.META.get("CONTENT_LENGTH") or 0) > LARGEST_REQUEST_BYTES:
        return _form_page(request, UploadForm(), {"file": TOO_LARGE_SENTENCE}, 413)
    return _upload_page(request)


@csrf_protect
def _upload_page(request: HttpRequest) -> HttpResponse:
    if request.method != "POST":
        return _form_page(request, UploadForm(), {})
    form = UploadForm(request.POST, request.FILES)
    if not form.is_valid():
        errors = {name: " ".join(map(str, sentences)) for name, sentences in form.errors.items()}
        return _form_page(request, form, errors, 400)
    throttle = UploadThrottle()
    if not throttle.allow_request(request, None):
        return _try_later(request, form, "Too many files came from your address", throttle.wait())
    try:
        network = upload_network(
            form.cleaned_data["file"], image_size=form.cleaned_data["image_size"]
        )
    except UploadBusyError:
        return _try_later(request, form, "Another file is being read just now", BUSY_SECONDS)
    except UploadError as error:
        status = 413 if error.code == TOO_LARGE else 400
        return _form_page(request, form, {field_of(error): str(error)}, status)
    return redirect("own-network", token=network.token)


@require_safe
@never_cache
def network_page(request: HttpRequest, token: str) -> HttpResponse:
    """A private network: what it is, what is measured of it, and its forecast."""
    network = _network_or_404(token)
    forecast = _example_forecast(network)
    efforts = efforts_by_machine(forecast) if forecast else {}
    coverage = coverage_of(network.architecture)
    wishes = network.measurement_requests.select_related("machine").order_by("machine__slug")
    requested = [wish.machine for wish in wishes]
    layers = layers_of(network.architecture)
    context = {
        "page": "architectures",
        "network": network,
        "architecture": network.architecture,
        "facts": facts_of(network.architecture, layers),
        "layers": layers,
        "coverage": coverage,
        "requested": requested,
        "askable": [
            (machine, efforts.get(machine.slug))
            for machine in machines_to_ask_for(coverage, requested)
        ],
        "answers": make_answers(forecast) if forecast else [],
        "query_string": forecast.query.to_query_string() if forecast else "",
    }
    return _private(render(request, "uploads/network.html", context))


@require_POST
@never_cache
def keep(request: HttpRequest, token: str) -> HttpResponse:
    """Let the network stay beyond its 30 days."""
    keep_network(_network_or_404(token))
    return redirect("own-network", token=token)


@require_POST
@never_cache
def delete(request: HttpRequest, token: str) -> HttpResponse:
    """Delete the network now."""
    delete_network(_network_or_404(token))
    return redirect(f"{reverse('upload')}?deleted")


@require_POST
@never_cache
def ask_to_measure(request: HttpRequest, token: str) -> HttpResponse:
    """Note the wish that a machine measures the missing layers; nothing is started."""
    network = _network_or_404(token)
    slug = request.POST.get("machine", "")[:MAX_MACHINE_LENGTH].replace("\0", "")
    machine = get_object_or_404(Machine, slug=slug)
    missing = {line.machine: line.missing_layers for line in coverage_of(network.architecture)}
    count = missing.get(machine, network.architecture.uses.values("layer").distinct().count())
    if count:
        request_measurement(network, machine, count)
    return redirect("own-network", token=token)


def _network_or_404(token: str) -> OwnNetwork:
    network = find_network(token)
    if network is None:
        raise NoSuchLink
    return network


def field_of(error: UploadError) -> str:
    """The field beside which the sentence belongs."""
    return "image_size" if error.code in ("image_size", "image_size_needed") else "file"


def _form_page(
    request: HttpRequest, form: UploadForm, errors: dict[str, str], status: int = 200
) -> HttpResponse:
    context = {
        "page": "architectures",
        "form": form,
        "image_size": form["image_size"].value() or "",
        "errors": errors,
        "deleted": "deleted" in request.GET,
        "unfolded_export": UNFOLDED_EXPORT.removeprefix("export with "),
    }
    return render(request, "uploads/upload.html", context, status=status)


def _try_later(
    request: HttpRequest, form: UploadForm, reason: str, seconds: float | None
) -> HttpResponse:
    wait = max(1, round(seconds or BUSY_SECONDS))
    unit = f"{round(wait / 60)} minutes" if wait >= 90 else f"{wait} seconds"
    sentence = f"{reason}: try again in {unit}."
    response = _form_page(request, form, {"file": sentence}, 429)
    response["Retry-After"] = str(wait)
    return response


def _example_forecast(network: OwnNetwork) -> Any:
    slug = network.architecture.slug
    choices = load_choices([slug])
    machines = example_parameters(choices).get("machine")
    if not machines:
        return None
    parameters = {"architecture": [slug], "machine": machines, "epochs": [str(EXAMPLE_EPOCHS)]}
    return make_forecast(parse_query(parameters, choices))


def _private(response: HttpResponse) -> HttpResponse:
    response["X-Robots-Tag"] = "noindex, nofollow"
    return response
