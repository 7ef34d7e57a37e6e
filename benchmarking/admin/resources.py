"""What a file of devices, machines or prices may hold, for import and export in the admin.

A whole file is stored or nothing of it; every refusal names the field and says what is allowed.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db.models import Model
from import_export.fields import Field
from import_export.resources import ModelResource
from import_export.results import Error
from import_export.widgets import ForeignKeyWidget

from benchmarking.models import Device, Machine, Price
from benchmarking.suggestions import did_you_mean

UNKNOWN_DATE = "unknown"
AS_OF_HELP = (
    "A date such as 2026-08-17 or 2026-08, or a period such as 2018/2019. Write "
    f"'{UNKNOWN_DATE}' where nobody knows: such a price is shown as undated and never wins."
)


class LineOfError(Error):
    """An error without a traceback: readers of the page have no use for it."""

    traceback = ""


class CatalogueResource(ModelResource):
    """What the three resources share: columns are checked, and text bears no stray spaces."""

    required_columns: ClassVar[tuple[str, ...]] = ()

    class Meta:
        abstract = True

    @classmethod
    def get_error_result_class(cls) -> type[Error]:
        """See ``Resource``."""
        return LineOfError

    def before_import(self, dataset: Any, **kwargs: Any) -> None:
        """Refuse a file whose columns are not those of an export."""
        headers = list(dataset.headers or [])
        allowed = [field.column_name for field in self.get_user_visible_fields()]
        problems = []
        if missing := [name for name in self.required_columns if name not in headers]:
            problems.append(f"the file lacks the columns {', '.join(missing)}")
        if unknown := [str(name) for name in headers if name not in allowed]:
            problems.append(f"it has unknown columns {', '.join(unknown)}")
        if problems:
            dataset.wipe()
            raise ValueError(f"{'; '.join(problems)}. Allowed are {', '.join(allowed)}.")

    def before_import_row(self, row: dict[str, Any], **kwargs: Any) -> None:
        """Strip text, and refuse what no model field could explain."""
        for name, value in row.items():
            if isinstance(value, str):
                row[name] = value.strip()
        errors = self.find_errors(row)
        if errors:
            raise ValidationError(errors)

    def find_errors(self, row: Mapping[str, Any]) -> dict[str, str]:
        """A message for each field of a row that cannot be used."""
        return {name: "is empty" for name in self.required_columns if row.get(name) in (None, "")}


class SlugWidget(ForeignKeyWidget):
    """A related row by its slug."""

    def __init__(self, model: type[Model]) -> None:
        super().__init__(model, "slug")


def _find_unknown(model: type[Device] | type[Machine], name: str, slug: Any) -> dict[str, str]:
    known = model.objects.values_list("slug", flat=True)
    if not slug or slug in known:
        return {}
    return {name: f"{slug!r} is not in the catalogue{did_you_mean(str(slug), known)}"}


def _is_positive(value: Any) -> bool:
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return False
    return number.is_finite() and number > 0


class DeviceResource(CatalogueResource):
    """Devices by slug; a column that a file leaves out keeps its values."""

    required_columns = ("slug",)

    class Meta:
        model = Device
        exclude = ("id", "shipped_values")
        import_id_fields = ("slug",)
        clean_model_instances = True
        skip_unchanged = True
        report_skipped = True
        use_transactions = True


class MachineResource(CatalogueResource):
    """Machines by slug; a column that a file leaves out keeps its values."""

    required_columns = ("slug",)
    device = Field(column_name="device", attribute="device", widget=SlugWidget(Device))

    class Meta:
        model = Machine
        exclude = ("id", "shipped_values")
        import_id_fields = ("slug",)
        clean_model_instances = True
        skip_unchanged = True
        report_skipped = True
        use_transactions = True

    def find_errors(self, row: Mapping[str, Any]) -> dict[str, str]:
        """See ``CatalogueResource``."""
        errors = super().find_errors(row)
        return errors | _find_unknown(Device, "device", row.get("device"))


class PriceResource(CatalogueResource):
    """Prices, which are history: a file adds quotations and changes none."""

    required_columns = ("machine", "kind", "region", "usd_per_hour", "as_of", "source")
    machine = Field(column_name="machine", attribute="machine", widget=SlugWidget(Machine))

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
        import_id_fields = ("machine", "kind", "region", "as_of", "source")
        clean_model_instances = True
        skip_unchanged = True
        report_skipped = True
        use_transactions = True

    def dehydrate_as_of(self, price: Price) -> str:
        """An undated price says so, so that an export can be imported."""
        return price.as_of or UNKNOWN_DATE

    def before_import_row(self, row: dict[str, Any], **kwargs: Any) -> None:
        """See ``CatalogueResource``; an unknown date is stored as an empty one."""
        super().before_import_row(row, **kwargs)
        if row["as_of"] == UNKNOWN_DATE:
            row["as_of"] = ""

    def find_errors(self, row: Mapping[str, Any]) -> dict[str, str]:
        """See ``CatalogueResource``."""
        errors = super().find_errors(row)
        if "as_of" in errors:
            errors["as_of"] = f"is empty. {AS_OF_HELP}"
        if "usd_per_hour" not in errors and not _is_positive(row["usd_per_hour"]):
            errors["usd_per_hour"] = f"{row['usd_per_hour']!r} must be a number greater than 0"
        if row.get("kind") and row["kind"] not in Price.Kind.values:
            errors["kind"] = f"{row['kind']!r} must be one of {', '.join(Price.Kind.values)}"
        return errors | _find_unknown(Machine, "machine", row.get("machine"))

    def validate_instance(
        self,
        instance: Price,
        import_validation_errors: dict[str, Any] | None = None,
        validate_unique: bool = True,
    ) -> None:
        """See ``Resource``; a quotation that is stored already may not change."""
        if not instance._state.adding:
            stored = Price.objects.get(pk=instance.pk)
            raise ValidationError(
                f"this quotation is stored with {stored.usd_per_hour.normalize():f} USD/h. Prices "
                "are history: give the new price its own date or source."
            )
        super().validate_instance(instance, import_validation_errors, validate_unique)
