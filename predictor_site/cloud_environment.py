"""Reading the settings of the EC2 host; a wrong one is refused in one clear line."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from benchmarking.hosts.ec2.regions import known_regions
from benchmarking.suggestions import did_you_mean
from predictor_site.environment import Environment

_ENDPOINT = r"https?://[A-Za-z0-9.\[\]:-]+/?"
# Wider than this is no address of a worker any more.
_WIDEST_PREFIX = {4: 16, 6: 48}


def regions(environment: Environment, name: str) -> list[str]:
    """AWS regions such as us-east-1, in the order in which they are tried."""
    words = environment.words(name)
    for word in words:
        if word not in known_regions():
            raise ImproperlyConfigured(
                f"{name} must be AWS regions such as us-east-1,eu-west-1; {word!r} is none"
                + did_you_mean(word, known_regions())
            )
    return words


def image_ids(environment: Environment, name: str) -> dict[str, str]:
    """Image ids by region; one for all regions stands under the empty name."""
    images: dict[str, str] = {}
    for region, value in _assignments(environment, name, "ami", needs_region=False):
        if region in images:
            raise ImproperlyConfigured(f"{name} names two images for {region or 'all regions'}")
        images[region] = value
    return images


def subnet_ids(environment: Environment, name: str) -> dict[str, list[str]]:
    """Subnet ids by region."""
    subnets: dict[str, list[str]] = {}
    for region, value in _assignments(environment, name, "subnet", needs_region=True):
        subnets.setdefault(region, []).append(value)
    return subnets


def worker_network(environment: Environment, name: str) -> str:
    """The address or network that workers come from, ``""`` where it is not set."""
    value = environment.text(name, "")
    if not value:
        return ""
    hint = f"{name} must be the address that the workers come from, such as 203.0.113.7/32"
    try:
        network = ipaddress.ip_network(value)
    except ValueError:
        raise ImproperlyConfigured(f"{hint}; it is {value!r}") from None
    if network.prefixlen < _WIDEST_PREFIX[network.version]:
        raise ImproperlyConfigured(
            f"{hint}; {value} would let strangers reach the machines (at most "
            f"/{_WIDEST_PREFIX[network.version]} is allowed)"
        )
    return str(network)


def endpoint(environment: Environment, name: str) -> str:
    """Where AWS is played, ``""`` for AWS itself."""
    value = environment.text(name, "")
    if value and not (re.fullmatch(_ENDPOINT, value) and _has_port_in_range(value)):
        raise ImproperlyConfigured(f"{name} must look like http://127.0.0.1:5000; it is {value!r}")
    return value


def parameter_path(environment: Environment, name: str, default: str) -> str:
    """The name of an SSM parameter."""
    value = environment.text(name, default)
    if not re.fullmatch(r"/[A-Za-z0-9_./-]+", value):
        raise ImproperlyConfigured(
            f"{name} must be the path of an SSM parameter, such as {default}; it is {value!r}"
        )
    return value


def program_path(environment: Environment, name: str, default: str) -> str:
    """A program on a machine: its path or its name, without arguments."""
    value = environment.text(name, default)
    if not re.fullmatch(r"/?[A-Za-z0-9_.+-]+(/[A-Za-z0-9_.+-]+)*", value):
        raise ImproperlyConfigured(
            f"{name} must be a program such as {default}, without arguments; it is {value!r}"
        )
    return value


def user_name(environment: Environment, name: str, default: str) -> str:
    """A Linux user."""
    value = environment.text(name, default)
    if not re.fullmatch(r"[a-z_][a-z0-9_-]{0,31}", value):
        raise ImproperlyConfigured(f"{name} must be a user such as {default}; it is {value!r}")
    return value


def deployment_name(environment: Environment, name: str) -> str:
    """The name in the tags, ``""`` where the installation is to make one."""
    value = environment.text(name, "")
    if value and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", value):
        raise ImproperlyConfigured(
            f"{name} must be at most 63 letters, digits, dots, hyphens and underscores; "
            f"it is {value!r}"
        )
    return value


def _has_port_in_range(url: str) -> bool:
    try:
        return urlsplit(url).port != 0
    except ValueError:
        return False


def _assignments(
    environment: Environment, name: str, kind: str, *, needs_region: bool
) -> list[tuple[str, str]]:
    """Pairs of region and id from ``region=id,region=id``."""
    hint = f"us-east-1={kind}-0123456789abcdef0" + (
        "" if needs_region else f" or {kind}-0123456789abcdef0"
    )
    pairs = []
    for part in filter(None, (p.strip() for p in environment.text(name, "").split(","))):
        region, separator, value = part.rpartition("=")
        if bool(separator) < needs_region or not re.fullmatch(rf"{kind}-[0-9a-f]{{8,17}}", value):
            raise ImproperlyConfigured(
                f"{name} must look like {hint}, separated by commas; {part!r} does not"
            )
        if separator and region not in known_regions():
            raise ImproperlyConfigured(
                f"{name} must look like {hint}, separated by commas; {region!r} is no AWS region"
                + did_you_mean(region, known_regions())
            )
        pairs.append((region, value))
    return pairs
