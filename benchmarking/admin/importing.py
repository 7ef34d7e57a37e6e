"""Import and export pages that show what would change first and store all of a file or nothing."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.forms import Form
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from import_export.admin import ImportExportModelAdmin
from import_export.formats.base_formats import CSV, JSON
from import_export.forms import ExportForm
from import_export.results import Result


class CatalogueImportAdmin(ImportExportModelAdmin):
    """An admin with import and export of CSV and JSON, for those who may add and change rows."""

    import_template_name = "benchmarking/admin/import.html"
    formats = [CSV, JSON]
    # Whole rows: what is exported can be imported again.
    export_form_class = ExportForm
    import_error_display = ("message",)
    from_encoding = "utf-8-sig"

    def has_import_permission(self, request: HttpRequest) -> bool:
        """See ``ImportMixin``, which lets every member of staff in."""
        return self.has_add_permission(request)

    def has_export_permission(self, request: HttpRequest) -> bool:
        """See ``ExportMixin``."""
        return self.has_view_permission(request)

    def add_data_read_fail_error_to_form(self, form: Form, error: Exception) -> None:
        """See ``ImportMixin``."""
        form.add_error(
            "import_file",
            "The file cannot be read in this format. It must be UTF-8 text: CSV with one header "
            "line and as many values in every line, or a JSON list of flat objects. Nothing was "
            "stored.",
        )

    def process_result(self, result: Result, request: HttpRequest) -> HttpResponse:
        """See ``ImportMixin``, which calls a failed import finished."""
        if result.has_errors() or result.has_validation_errors():
            messages.error(
                request,
                "Nothing was stored: the data here changed since the preview. Import the file "
                "again to see what is wrong.",
            )
            return HttpResponseRedirect(request.path.replace("process_import", "import"))
        return super().process_result(result, request)

    def get_import_data_kwargs(self, **kwargs: Any) -> dict[str, Any]:
        """See ``ImportMixin``; without it a file with some wrong rows would store the others."""
        return super().get_import_data_kwargs(**kwargs) | {"rollback_on_validation_errors": True}
