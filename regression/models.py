"""What was learnt, and how well it does on networks it had not seen."""

from __future__ import annotations

from django.db import models
from django.utils import timezone

from benchmarking.models import Device, Machine, SoftwareStack


class TrainedModel(models.Model):
    """A model of iteration times, fitted to one machine's timings with one software stack.

    Layer timings come from every machine with the same device and stack, whole iterations from
    ``machine``. Rows are added; the newest of a machine and stack is the active one.
    """

    device = models.ForeignKey(Device, on_delete=models.CASCADE, related_name="trained_models")
    machine = models.ForeignKey(Machine, on_delete=models.CASCADE, related_name="trained_models")
    stack = models.ForeignKey(
        SoftwareStack, on_delete=models.CASCADE, related_name="trained_models"
    )
    version = models.CharField(max_length=40, help_text="Method and data, as forecasts show it.")
    is_active = models.BooleanField(default=True)
    trained_at = models.DateTimeField(default=timezone.now)
    features = models.JSONField(help_text="Names of the features, in order.")
    data_hash = models.CharField(max_length=64, help_text="SHA-256 of timings and traces used.")
    layer_timing_count = models.PositiveIntegerField(
        help_text="Layer timings of the device and stack when it was trained."
    )
    iteration_timing_count = models.PositiveIntegerField(
        help_text="Whole iterations of the machine and stack when it was trained."
    )
    networks = models.PositiveIntegerField(help_text="CNNs it has learnt from.")
    points = models.PositiveIntegerField(help_text="Iterations it has learnt from.")
    library_versions = models.JSONField(default=dict)
    coefficients = models.JSONField(help_text="Learnt costs of the physical model.")
    booster = models.BinaryField(
        blank=True, help_text="XGBoost's save_model in UBJ; empty with too few CNNs for one."
    )
    layer_booster = models.BinaryField(
        blank=True,
        default=b"",
        help_text="XGBoost's save_model of times of unmeasured layers; empty with too few.",
    )
    layer_batch_sizes = models.JSONField(
        default=list, blank=True, help_text="Batch sizes at which unmeasured layers are estimated."
    )
    interval_errors = models.JSONField(help_text="Log errors on unseen CNNs, by kind and CNN.")
    metrics = models.JSONField(default=dict, help_text="Accuracy on unseen CNNs, in percent.")

    class Meta:
        ordering = ["-trained_at", "-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["machine", "stack"],
                condition=models.Q(is_active=True),
                name="trained_model_one_active",
            ),
            models.UniqueConstraint(
                fields=["machine", "stack", "version"], name="trained_model_unique_version"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.machine} · {self.stack} · {self.version}"


class Evaluation(models.Model):
    """The accuracy of a machine's forecasts on unseen CNNs, as ``evaluate`` reports it."""

    machine = models.ForeignKey(Machine, on_delete=models.CASCADE, related_name="evaluations")
    stack = models.ForeignKey(SoftwareStack, on_delete=models.CASCADE, related_name="evaluations")
    data_hash = models.CharField(max_length=64)
    report = models.JSONField()
    points = models.JSONField(
        default=list,
        blank=True,
        help_text="Each iteration, measured and as predicted without its CNN, in milliseconds.",
    )
    evaluated_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["machine", "stack"]
        constraints = [
            models.UniqueConstraint(
                fields=["machine", "stack"], name="evaluation_unique_machine_stack"
            )
        ]

    def __str__(self) -> str:
        return f"{self.machine} · {self.stack}"
