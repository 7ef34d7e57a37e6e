"""Who may see and do what on the pages of benchmark jobs."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.models import User
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django_htmx.http import HttpResponseClientRefresh

View = Callable[..., HttpResponse]


def for_operators(view: View) -> View:
    """Send visitors to log in, and refuse who is no operator with 403."""

    @wraps(view)
    def checked(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.user.is_authenticated:
            if request.headers.get("HX-Request"):
                # A part of a page cannot be replaced by the login page; the page itself can.
                return HttpResponseClientRefresh()
            return redirect_to_login(request.get_full_path())
        if not request.user.is_staff:
            raise PermissionDenied
        return view(request, *args, **kwargs)

    return checked


def operator_of(request: HttpRequest) -> User:
    """Who asks, on a page that is for operators."""
    assert isinstance(request.user, User)
    return request.user


def require(request: HttpRequest, permission: str) -> None:
    """Raise ``PermissionDenied`` unless the operator has ``permission``."""
    if not request.user.has_perm(permission):
        raise PermissionDenied
