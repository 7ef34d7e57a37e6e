"""How old the newest price of each machine is, for whoever keeps prices."""

from __future__ import annotations

from datetime import timedelta

from django.contrib import admin
from django.db.models import Exists, OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils import timezone

from benchmarking.models import Machine, Price

OLD_AFTER = timedelta(days=60)


def with_newest_price(machines: QuerySet[Machine]) -> QuerySet[Machine]:
    """Machines with ``newest_usd_per_hour`` and ``newest_as_of`` of their price on demand.

    In whatever region; ``None`` where no price is known, an empty date where it is undated.
    """
    newest = Price.objects.filter(machine=OuterRef("pk"), kind=Price.Kind.ON_DEMAND).order_by(
        "-as_of", "-recorded_at", "-pk"
    )
    return machines.annotate(
        newest_usd_per_hour=Subquery(newest.values("usd_per_hour")[:1]),
        newest_as_of=Subquery(newest.values("as_of")[:1]),
    )


class NewestPriceFilter(admin.SimpleListFilter):
    """Machines whose price wants looking up."""

    title = "newest price on demand"
    parameter_name = "newest_price"

    def lookups(
        self, request: HttpRequest, model_admin: admin.ModelAdmin[Machine]
    ) -> list[tuple[str, str]]:
        """See ``SimpleListFilter``."""
        return [
            ("recent", f"at most {OLD_AFTER.days} days old"),
            ("old", f"more than {OLD_AFTER.days} days old"),
            ("undated", "undated"),
            ("none", "none"),
        ]

    def queryset(self, request: HttpRequest, queryset: QuerySet[Machine]) -> QuerySet[Machine]:
        """See ``SimpleListFilter``; a period counts from its first day, as in a forecast."""
        # Text order is date order for every date that a price may have.
        limit = (timezone.localdate() - OLD_AFTER).isoformat()
        on_demand = Price.objects.filter(machine=OuterRef("pk"), kind=Price.Kind.ON_DEMAND)
        recent, dated = (
            Exists(on_demand.filter(as_of__gte=limit)),
            Exists(on_demand.exclude(as_of="")),
        )
        match self.value():
            case "recent":
                return queryset.filter(recent)
            case "old":
                return queryset.filter(dated).exclude(recent)
            case "undated":
                return queryset.filter(Exists(on_demand)).exclude(dated)
            case "none":
                return queryset.exclude(Exists(on_demand))
        return queryset
