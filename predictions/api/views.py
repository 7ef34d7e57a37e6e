"""The API's endpoints: forecasts by the page's own query string, and the lists behind it."""

from __future__ import annotations

from django.utils.decorators import method_decorator
from django.views.decorators.http import conditional_page
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from benchmarking.models import Architecture, Device, Machine, Price
from predictions.api.filters import (
    ArchitectureFilters,
    DeviceFilters,
    EvaluationFilters,
    MachineFilters,
    PriceFilters,
)
from predictions.api.lists import CatalogueList
from predictions.api.problems import ProblemDetails
from predictions.api.serializers import (
    AdviceSerializer,
    ArchitectureSerializer,
    DeviceSerializer,
    EvaluationSerializer,
    ForecastSerializer,
    MachineSerializer,
    PriceSerializer,
    ProblemSerializer,
)
from predictions.cards import make_answers
from predictions.forecast import load_choices, make_forecast
from predictions.joint_cards import make_joint_answer
from predictions.problems import CONTENT_TYPE
from predictions.query import (
    OPTIMIZERS,
    PRECISIONS,
    PRICE_KINDS,
    parse_query,
)
from predictions.raw_parameters import raw_parameters
from regression.models import Evaluation


def _several(name: str, text: str) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.STR, many=True, description=text)


FORECAST_PARAMETERS = [
    OpenApiParameter(
        "architecture",
        OpenApiTypes.STR,
        many=True,
        required=True,
        description="CNN, for example resnet50; repeat it for several.",
    ),
    _several("machine", "Machine, for example aws-g4dn.xlarge; repeat it for several."),
    _several("device", "Device alone, without a price, for example t4."),
    OpenApiParameter("batch_sizes", str, description="1-64 or 8,16,32; unset: up to what fits."),
    OpenApiParameter("examples", int, description="Training examples in an epoch."),
    OpenApiParameter("epochs", int, description="Passes over the examples."),
    OpenApiParameter("precision", str, enum=PRECISIONS),
    OpenApiParameter("image_size", int, description="Pixels; unset: the CNN's usual size."),
    OpenApiParameter("price", str, enum=PRICE_KINDS),
    OpenApiParameter("region", str, description="Region whose prices count."),
    OpenApiParameter("optimizer", str, enum=OPTIMIZERS),
    OpenApiParameter("loader_images_per_second", float, description="Input pipeline's rate."),
    OpenApiParameter(
        "interruption_overhead",
        float,
        description="Percent more time for interruptions; unset: 10 on spot, 0 on demand.",
    ),
    OpenApiParameter("start_minutes", float, description="Time to start a machine; unset: 0."),
    OpenApiParameter("storage_gib", float, description="Storage while training; unset: 0."),
    OpenApiParameter(
        "storage_usd_per_gib_month", float, description="Price of that storage; unset: 0.08."
    ),
    OpenApiParameter("max_usd", float, description="Leave out what costs more in total."),
    OpenApiParameter("max_hours", float, description="Leave out what takes longer in total."),
    OpenApiParameter("max_memory_gib", float, description="Leave out what needs more memory."),
]


@method_decorator(conditional_page, name="dispatch")
class PredictionsView(ProblemDetails, APIView):
    """Forecasts for the query string of the page: the same names, the same rows."""

    @extend_schema(
        operation_id="predictions",
        parameters=FORECAST_PARAMETERS,
        responses={
            200: ForecastSerializer,
            (400, CONTENT_TYPE): ProblemSerializer,
        },
    )
    def get(self, request: Request) -> Response:
        """Iteration time, epoch time and cost over batch size, with interval and source."""
        given = raw_parameters(request.query_params)
        query = parse_query(given, load_choices(given.get("architecture", ())))
        return Response(make_forecast(query).to_json())


@method_decorator(conditional_page, name="dispatch")
class AdviceView(ProblemDetails, APIView):
    """Fastest, cheapest and best trade-off for the query string of the page."""

    @extend_schema(
        operation_id="advice",
        parameters=FORECAST_PARAMETERS,
        responses={200: AdviceSerializer, (400, CONTENT_TYPE): ProblemSerializer},
    )
    def get(self, request: Request) -> Response:
        """The cards of the page: winners, what cannot be told apart from them, and why."""
        given = raw_parameters(request.query_params)
        query = parse_query(given, load_choices(given.get("architecture", ())))
        answers = make_answers(make_forecast(query))
        together = make_joint_answer(answers)
        return Response(
            {
                "query": query.to_json(),
                "answers": [answer.to_json() for answer in answers],
                "together": together.to_json() if together else None,
            }
        )


class ArchitectureList(CatalogueList):
    """CNNs that a forecast can name, each at each image size that it was traced at."""

    queryset = Architecture.objects.public().defer("operations")
    serializer_class = ArchitectureSerializer
    filterset_class = ArchitectureFilters


class DeviceList(CatalogueList):
    """Devices by their specification, each value with its source."""

    queryset = Device.objects.all()
    serializer_class = DeviceSerializer
    filterset_class = DeviceFilters


class MachineList(CatalogueList):
    """Machines that can be rented, or once could."""

    queryset = Machine.objects.select_related("device")
    serializer_class = MachineSerializer
    filterset_class = MachineFilters


class PriceList(CatalogueList):
    """Every price that was ever recorded, with its date and source."""

    queryset = Price.objects.select_related("machine")
    serializer_class = PriceSerializer
    filterset_class = PriceFilters


class EvaluationList(CatalogueList):
    """How well forecasts do on CNNs that were not learnt from."""

    queryset = Evaluation.objects.select_related("machine")
    serializer_class = EvaluationSerializer
    filterset_class = EvaluationFilters
