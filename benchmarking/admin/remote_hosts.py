"""Computers of one's own in the admin: their login key goes in and never comes out again."""

from __future__ import annotations

import ipaddress
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db.models import QuerySet
from django.http import HttpRequest

from benchmarking.hosts.base import HostFaultError, HostUnavailableError
from benchmarking.hosts.keys import (
    KeyPair,
    WrongKeyError,
    fingerprint,
    read_private_key,
    read_public_key,
)
from benchmarking.hosts.registry import ssh_target
from benchmarking.jobs.secrets import SecretUnreadableError, encrypt_again, encrypt_key
from benchmarking.models import RemoteHost

HOST_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(\.[A-Za-z0-9_-]{1,63})*\.?")
USER_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9._@-]*\$?")
PYTHON = re.compile(r"[A-Za-z0-9._+-]+|/.*")
TESTED_AT_A_TIME = 8
# Whoever presses the button waits for it.
TEST_CONNECT_SECONDS = 5.0
TEST_CALL_SECONDS = 20.0


class WriteOnlyTextarea(forms.Textarea):
    """A field whose content is not sent back, not even with a form that was refused."""

    def format_value(self, value: Any) -> str:
        """Nothing, whatever was entered."""
        return ""


class PublicKeyInput(forms.TextInput):
    """Sends back what was entered, unless it was a private key by mistake."""

    def format_value(self, value: Any) -> str | None:
        """See ``Widget``."""
        shown: str | None = super().format_value(value)
        return None if "PRIVATE KEY" in (shown or "") else shown


class RemoteHostForm(forms.ModelForm):
    """A remote host whose keys are keys, and whose private one is only ever written."""

    private_key = forms.CharField(
        label="Login key",
        required=False,
        max_length=20_000,
        widget=WriteOnlyTextarea(
            attrs={
                "class": "vLargeTextField",
                "rows": 8,
                "autocomplete": "off",
                "spellcheck": "false",
            }
        ),
    )

    class Meta:
        model = RemoteHost
        fields = ("name", "machine", "address", "port", "user", "host_public_key", "python")
        widgets = {"host_public_key": PublicKeyInput(attrs={"class": "vLargeTextField"})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["private_key"]
        field.required = self.instance.pk is None
        keeps = "" if field.required else " Leave it empty to keep the one that is stored."
        field.help_text = (
            "The private key, without a passphrase. It is stored encrypted and never shown "
            f"again.{keeps}"
        )

    def clean_private_key(self) -> KeyPair | None:
        """The pair of the key, ``None`` where the stored one is kept."""
        text: str = self.cleaned_data["private_key"]
        if not text:
            return None
        try:
            return read_private_key(text)
        except WrongKeyError as error:
            raise forms.ValidationError(_sentence(error)) from None

    def clean_host_public_key(self) -> str:
        """The key alone, without a name before or a comment behind it."""
        try:
            return read_public_key(self.cleaned_data["host_public_key"])
        except WrongKeyError as error:
            raise forms.ValidationError(_sentence(error)) from None

    def clean_address(self) -> str:
        """A host name or an IP address."""
        address: str = self.cleaned_data["address"]
        try:
            ipaddress.ip_address(address)
        except ValueError:
            if not HOST_NAME.fullmatch(address):
                raise forms.ValidationError(
                    "Give a host name or an IP address, without user or port."
                ) from None
        return address

    def clean_port(self) -> int:
        """A TCP port."""
        port: int = self.cleaned_data["port"]
        MinValueValidator(1)(port)
        MaxValueValidator(65535)(port)
        return port

    def clean_user(self) -> str:
        """The name of a user as Linux allows it."""
        user: str = self.cleaned_data["user"]
        if not USER_NAME.fullmatch(user):
            raise forms.ValidationError("Give the name of a user on that computer.")
        return user

    def clean_python(self) -> str:
        """What the remote shell can find."""
        python: str = self.cleaned_data["python"]
        if not PYTHON.fullmatch(python):
            raise forms.ValidationError(
                "Give the name of a program, such as python3, or an absolute path."
            )
        return python

    def save(self, commit: bool = True) -> RemoteHost:
        """Encrypt the key, if there is a new one."""
        pair: KeyPair | None = self.cleaned_data["private_key"]
        if pair is not None:
            self.instance.login_key = encrypt_key(pair.private_key.encode())
            self.instance.login_public_key = pair.public_key
        saved: RemoteHost = super().save(commit)
        return saved


@admin.register(RemoteHost)
class RemoteHostAdmin(admin.ModelAdmin):
    """Remote hosts, with a button that tries the login."""

    form = RemoteHostForm
    list_display = ("name", "machine", "place", "python", "is_enabled")
    list_filter = ("is_enabled", ("machine", admin.RelatedOnlyFieldListFilter))
    list_select_related = ("machine",)
    search_fields = ("name", "address", "machine__slug")
    autocomplete_fields = ("machine",)
    fields = (
        "name",
        "machine",
        ("address", "port"),
        "user",
        "host_public_key",
        "host_fingerprint",
        "private_key",
        "login_public_key",
        "login_fingerprint",
        "python",
        "is_enabled",
    )
    readonly_fields = ("host_fingerprint", "login_public_key", "login_fingerprint")
    actions = ("test_connection", "encrypt_keys_again")

    @admin.display(description="Login")
    def place(self, host: RemoteHost) -> str:
        """Who logs in where."""
        return f"{host.user}@{host.address}:{host.port}"

    @admin.display(description="Fingerprint of the login key", empty_value="-")
    def login_fingerprint(self, host: RemoteHost) -> str | None:
        """As ``ssh-keygen -l`` shows it."""
        return fingerprint(host.login_public_key) if host.login_public_key else None

    @admin.display(description="Fingerprint of the host key", empty_value="-")
    def host_fingerprint(self, host: RemoteHost) -> str | None:
        """As ``ssh-keygen -l`` shows it."""
        return fingerprint(host.host_public_key) if host.host_public_key else None

    @admin.action(description="Test the connection", permissions=["change"])
    def test_connection(self, request: HttpRequest, hosts: QuerySet[RemoteHost]) -> None:
        """Log in to each host and say what is there; nothing is changed on it."""
        selected = list(hosts)
        with ThreadPoolExecutor(TESTED_AT_A_TIME) as threads:
            results = list(threads.map(try_connection, selected))
        for host, (level, said) in zip(selected, results):
            self.message_user(request, f"Host {host.name}: {said}", level)

    @admin.action(description="Encrypt login keys with the newest key", permissions=["change"])
    def encrypt_keys_again(self, request: HttpRequest, hosts: QuerySet[RemoteHost]) -> None:
        """Let the older keys of JOB_SECRET_KEYS be dropped."""
        for host in hosts:
            try:
                login_key = encrypt_again(host.login_key)
            except SecretUnreadableError as error:
                self.message_user(request, f"Host {host.name}: {error}", messages.ERROR)
                continue
            # Only if nobody has entered another key meanwhile.
            RemoteHost.objects.filter(pk=host.pk, login_key=host.login_key).update(
                login_key=login_key
            )
            self.message_user(
                request, f"Host {host.name}: the login key is encrypted again.", messages.SUCCESS
            )


def try_connection(host: RemoteHost) -> tuple[int, str]:
    """The level of a message, and what a login to ``host`` finds, in words."""
    # Loads paramiko, for which nothing else here has a use.
    from benchmarking.hosts.ssh import SshHost

    try:
        said = SshHost(ssh_target(host), TEST_CONNECT_SECONDS, TEST_CALL_SECONDS).check()
    except (HostFaultError, HostUnavailableError) as error:
        return messages.ERROR, str(error)
    return messages.SUCCESS, said


def _sentence(error: WrongKeyError) -> str:
    text = str(error)
    return f"{text[0].upper()}{text[1:]}."
