"""The API for networks of one's own: send a file, look at what became of it, delete it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.core.exceptions import SuspiciousOperation
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import APIException, NotFound, ParseError, Throttled
from rest_framework.parsers import MultiPartParser
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from benchmarking.onnx_import.errors import UploadError
from predictions.api.problems import problem_handler
from predictions.api.serializers import ProblemSerializer
from predictions.problems import CONTENT_TYPE
from predictions.uploads.forms import UploadForm
from predictions.uploads.models import OwnNetwork
from predictions.uploads.services import (
    TOO_LARGE,
    TOO_LARGE_SENTENCE,
    IdempotencyError,
    Sender,
    UploadBusyError,
    delete_network,
    find_network,
    upload_network,
)
from predictions.uploads.throttling import UploadThrottle
from predictions.uploads.views import BUSY_SECONDS, LARGEST_REQUEST_BYTES, NoSuchLink, field_of


class RefusedFile(APIException):
    """400: the file or the image size cannot be used; ``errors`` has a sentence per field."""

    status_code = 400

    def __init__(self, errors: dict[str, str], code: str = "invalid") -> None:
        super().__init__(" ".join(errors.values()), code)
        self.errors = errors
        self.code = code


class FileTooLarge(RefusedFile):
    """413: more bytes than are allowed."""

    status_code = 413

    def __init__(self) -> None:
        super().__init__({"file": TOO_LARGE_SENTENCE}, TOO_LARGE)


class ReusedIdempotencyKey(APIException):
    """422: the key was used with other content, or is no key."""

    status_code = 422


class UploadRequestSerializer(serializers.Serializer):
    """What is sent, as ``multipart/form-data``."""

    file = serializers.FileField(
        help_text="ONNX, or the JSON of python -m benchmarking.tracing FILE.py:function."
    )
    image_size = serializers.IntegerField(
        required=False, help_text="Pixels, where the graph leaves the image size open."
    )


class OwnNetworkSerializer(serializers.Serializer):
    """A private network; ``architecture`` is its name in every query for a forecast."""

    token = serializers.CharField()
    architecture = serializers.CharField(source="architecture.slug")
    label = serializers.CharField()
    image_size = serializers.IntegerField(source="architecture.image_size")
    parameters = serializers.IntegerField(source="architecture.parameters")
    multiply_adds = serializers.IntegerField(source="architecture.multiply_adds")
    saved_bytes_per_example = serializers.FloatField(source="architecture.saved_bytes_per_example")
    minimum_batch_size = serializers.IntegerField(source="architecture.minimum_batch_size")
    convolution_layers = serializers.SerializerMethodField(
        help_text="Different convolution layers."
    )
    note = serializers.CharField(source="architecture.note")
    page = serializers.SerializerMethodField(help_text="Path of its private page.")
    uploaded_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True, help_text="null: kept.")

    def get_convolution_layers(self, network: OwnNetwork) -> int:
        """Counted once each, however often the network runs them."""
        return network.architecture.uses.values("layer").distinct().count()

    def get_page(self, network: OwnNetwork) -> str:
        """The path of the page that a browser shows."""
        return reverse("own-network", kwargs={"token": network.token})


def upload_problem_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """A problem document that also names the field and, for programs, the reason."""
    response = problem_handler(error, context)
    if response is not None and isinstance(error, RefusedFile):
        response.data["code"] = error.code
        response.data["errors"] = [
            {"parameter": name, "detail": sentence} for name, sentence in error.errors.items()
        ]
    return response


class UploadApi(APIView):
    """Whoever knows a token may do everything with its network, so nobody signs in."""

    authentication_classes = ()
    permission_classes = (AllowAny,)

    def get_exception_handler(self) -> Callable[..., Response | None]:
        """Used by REST framework for whatever a view raises."""
        return upload_problem_handler


class UploadView(UploadApi):
    """Send a network of one's own."""

    parser_classes = (MultiPartParser,)
    throttle_classes = (UploadThrottle,)

    @extend_schema(
        operation_id="uploads_create",
        request={"multipart/form-data": UploadRequestSerializer},
        parameters=[
            OpenApiParameter(
                "Idempotency-Key",
                OpenApiTypes.STR,
                OpenApiParameter.HEADER,
                description="Sent again with the same file, the first answer comes back.",
            )
        ],
        responses={
            201: OwnNetworkSerializer,
            (400, CONTENT_TYPE): ProblemSerializer,
            (413, CONTENT_TYPE): ProblemSerializer,
            (415, CONTENT_TYPE): ProblemSerializer,
            (422, CONTENT_TYPE): ProblemSerializer,
            (429, CONTENT_TYPE): ProblemSerializer,
        },
    )
    def post(self, request: Request) -> Response:
        """Read the file and store its network for 30 days behind a link nobody can guess."""
        if int(request.META.get("CONTENT_LENGTH") or 0) > LARGEST_REQUEST_BYTES:
            raise FileTooLarge
        try:
            form = UploadForm(request.data, request.FILES)
        except SuspiciousOperation as error:
            raise ParseError("The form holds too many values.") from error
        if not form.is_valid():
            raise RefusedFile(
                {name: " ".join(map(str, sentences)) for name, sentences in form.errors.items()}
            )
        sender = Sender(
            address=UploadThrottle().get_ident(request),
            idempotency_key=request.headers.get("Idempotency-Key", ""),
        )
        try:
            network = upload_network(
                form.cleaned_data["file"],
                image_size=form.cleaned_data["image_size"],
                sender=sender,
            )
        except UploadError as error:
            if error.code == TOO_LARGE:
                raise FileTooLarge from error
            raise RefusedFile({field_of(error): str(error)}, error.code) from error
        except IdempotencyError as error:
            raise ReusedIdempotencyKey(str(error)) from error
        except UploadBusyError as error:
            raise Throttled(BUSY_SECONDS, "Another file is being read just now.") from error
        return Response(OwnNetworkSerializer(network).data, status=201)


class OwnNetworkView(UploadApi):
    """One private network by its token."""

    @extend_schema(
        operation_id="uploads_retrieve",
        responses={200: OwnNetworkSerializer, (404, CONTENT_TYPE): ProblemSerializer},
    )
    def get(self, request: Request, token: str) -> Response:
        """What is known about the network, and when it goes."""
        return Response(OwnNetworkSerializer(self._network(token)).data)

    @extend_schema(
        operation_id="uploads_destroy",
        responses={204: None, (404, CONTENT_TYPE): ProblemSerializer},
    )
    def delete(self, request: Request, token: str) -> Response:
        """Delete the network with its link and its forecasts."""
        delete_network(self._network(token))
        return Response(status=204)

    def _network(self, token: str) -> OwnNetwork:
        network = find_network(token)
        if network is None:
            raise NotFound(f"{NoSuchLink.title}. {NoSuchLink.text}")
        return network
