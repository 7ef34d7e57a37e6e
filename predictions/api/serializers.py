"""What the API answers with, field by field, for its documentation and its lists."""

from __future__ import annotations

from rest_framework import serializers

from benchmarking.models import Architecture, Device, Machine, Price
from regression.models import Evaluation


class ForecastRowSerializer(serializers.Serializer):
    """One forecast row; ``null`` where unknown."""

    architecture = serializers.CharField()
    machine = serializers.CharField(allow_null=True)
    device = serializers.CharField(allow_null=True)
    precision = serializers.CharField()
    image_size = serializers.IntegerField()
    batch_size = serializers.IntegerField(allow_null=True)
    iteration_ms = serializers.FloatField(allow_null=True)
    iteration_ms_low = serializers.FloatField(allow_null=True)
    iteration_ms_high = serializers.FloatField(allow_null=True)
    images_per_second = serializers.FloatField(allow_null=True)
    bound_by = serializers.ChoiceField(["device", "host", "loader"], allow_null=True)
    epoch_seconds = serializers.FloatField(allow_null=True)
    total_seconds = serializers.FloatField(allow_null=True)
    usd_per_hour = serializers.FloatField(allow_null=True)
    price_kind = serializers.CharField(allow_null=True)
    price_region = serializers.CharField(allow_null=True)
    price_as_of = serializers.CharField(allow_null=True)
    total_cost_usd = serializers.FloatField(allow_null=True)
    memory_mib = serializers.FloatField(allow_null=True)
    fits = serializers.ChoiceField(["yes", "no", "unknown"])
    source = serializers.CharField(allow_null=True)
    measured_share = serializers.FloatField(allow_null=True)
    stack = serializers.CharField(allow_null=True)
    model_version = serializers.CharField(allow_null=True)
    note = serializers.CharField(allow_null=True)


class ForecastQuerySerializer(serializers.Serializer):
    """The query as it was understood, defaults filled in."""

    architecture = serializers.ListField(child=serializers.CharField())
    machine = serializers.ListField(child=serializers.CharField())
    device = serializers.ListField(child=serializers.CharField())
    batch_sizes = serializers.ListField(child=serializers.IntegerField(), allow_null=True)
    examples = serializers.IntegerField()
    epochs = serializers.IntegerField()
    precision = serializers.CharField()
    image_size = serializers.IntegerField(allow_null=True)
    price = serializers.CharField()
    region = serializers.CharField()
    optimizer = serializers.CharField()
    loader_images_per_second = serializers.FloatField(allow_null=True)
    interruption_overhead = serializers.FloatField()
    start_minutes = serializers.FloatField()
    storage_gib = serializers.FloatField()
    storage_usd_per_gib_month = serializers.FloatField()
    max_usd = serializers.FloatField(allow_null=True)
    max_hours = serializers.FloatField(allow_null=True)
    max_memory_gib = serializers.FloatField(allow_null=True)


class ForecastSerializer(serializers.Serializer):
    """An answer: the query and its rows."""

    query = ForecastQuerySerializer()
    rows = ForecastRowSerializer(many=True)


class ChoiceSerializer(serializers.Serializer):
    """One answer: the winning row (``null`` where nothing may win) and its equals."""

    row = ForecastRowSerializer(allow_null=True)
    equal_batch_sizes = serializers.ListField(
        child=serializers.IntegerField(), help_text="Same within the error, winner included."
    )
    equal_places = serializers.ListField(
        child=serializers.CharField(), help_text="Same within the error, best first."
    )
    why = serializers.CharField()


class FrontPointSerializer(serializers.Serializer):
    """A choice that nothing beats in both time and cost."""

    place = serializers.CharField()
    batch_size = serializers.IntegerField()
    total_seconds = serializers.FloatField()
    total_cost_usd = serializers.FloatField()


class AnswerSerializer(serializers.Serializer):
    """The answers for one CNN."""

    architecture = serializers.CharField()
    fastest = ChoiceSerializer()
    cheapest = ChoiceSerializer()
    trade_off = ChoiceSerializer()
    front = FrontPointSerializer(many=True)
    remarks = serializers.ListField(child=serializers.CharField())


class JointChoiceSerializer(serializers.Serializer):
    """The one place to train all CNNs in, one after the other; ``null`` where there is none."""

    place = serializers.CharField(allow_null=True)
    total_seconds = serializers.FloatField(allow_null=True)
    total_cost_usd = serializers.FloatField(allow_null=True)
    batch_sizes = serializers.DictField(
        child=serializers.IntegerField(), help_text="Of each CNN, by its name."
    )
    equal_places = serializers.ListField(
        child=serializers.CharField(), help_text="Same within the error, best first."
    )
    why = serializers.CharField()


class JointAnswerSerializer(serializers.Serializer):
    """The answers for all CNNs together."""

    architectures = serializers.ListField(child=serializers.CharField())
    fastest = JointChoiceSerializer()
    cheapest = JointChoiceSerializer()
    trade_off = JointChoiceSerializer()


class AdviceSerializer(serializers.Serializer):
    """The query, its answers for each CNN, and for all of them where there are several."""

    query = ForecastQuerySerializer()
    answers = AnswerSerializer(many=True)
    together = JointAnswerSerializer(allow_null=True)


class ProblemErrorSerializer(serializers.Serializer):
    """What is wrong with one parameter."""

    parameter = serializers.CharField()
    detail = serializers.CharField()


class ProblemSerializer(serializers.Serializer):
    """Problem details (RFC 9457)."""

    type = serializers.CharField()
    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    errors = ProblemErrorSerializer(many=True)
    code = serializers.CharField(required=False, help_text="Of a refused file: why.")
    error_id = serializers.CharField(
        required=False, help_text="Of a server's error: what to tell the operator."
    )


class ArchitectureSerializer(serializers.ModelSerializer):
    """A CNN at one image size."""

    class Meta:
        model = Architecture
        fields = (
            "slug",
            "image_size",
            "family",
            "source",
            "source_version",
            "parameters",
            "multiply_adds",
            "saved_bytes_per_example",
            "minimum_batch_size",
            "note",
        )


class DeviceSerializer(serializers.ModelSerializer):
    """A GPU model or CPU by its specification."""

    class Meta:
        model = Device
        fields = (
            "slug",
            "name",
            "kind",
            "architecture",
            "memory_mib",
            "usable_memory_mib",
            "fp32_tflops",
            "tf32_tflops",
            "fp16_tflops",
            "bandwidth_gb_s",
            "multiprocessors",
            "clock_mhz",
            "compute_capability",
            "sources",
            "note",
        )


class MachineSerializer(serializers.ModelSerializer):
    """Something rentable that holds devices."""

    device = serializers.SlugRelatedField(slug_field="slug", read_only=True)

    class Meta:
        model = Machine
        fields = (
            "slug",
            "provider",
            "instance_type",
            "device",
            "device_count",
            "vcpus",
            "memory_gib",
            "region",
            "availability",
            "note",
        )


class PriceSerializer(serializers.ModelSerializer):
    """What a machine costs by the hour, from when and according to whom."""

    machine = serializers.SlugRelatedField(slug_field="slug", read_only=True)
    usd_per_hour = serializers.FloatField()

    class Meta:
        model = Price
        fields = (
            "machine",
            "kind",
            "region",
            "currency",
            "usd_per_hour",
            "as_of",
            "source",
            "notional",
        )


class EvaluationSerializer(serializers.ModelSerializer):
    """The accuracy on unseen CNNs, as ``evaluate --format json`` prints it."""

    machine = serializers.SlugRelatedField(slug_field="slug", read_only=True)
    report = serializers.JSONField()

    class Meta:
        model = Evaluation
        fields = ("machine", "evaluated_at", "report")
