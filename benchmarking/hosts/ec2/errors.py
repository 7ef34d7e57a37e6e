"""What AWS's error codes mean for a job, and whether another zone, region or try can help."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fnmatch import fnmatchcase

from benchmarking.hosts.base import HostFault, HostFaultError, HostUnavailableError


class ErrorClass(StrEnum):
    """What to do about an error."""

    CAPACITY = "capacity"
    """Try the next zone, then the next region, then wait."""
    QUOTA = "quota"
    """Try the other regions: a quota is one of a region."""
    TRANSIENT = "transient"
    """Send the same again later."""
    CONFIGURATION = "configuration"
    """Stop at once and show what AWS said, word for word."""
    CREDENTIALS = "credentials"
    """As a configuration error, but the keys are wrong and not the request."""
    BUG = "bug"
    """The same token was used for two different requests: a fault of this program."""
    USED_UP = "used_up"
    """The instance of this token is terminated already: a new attempt needs a new token."""
    NOT_FOUND = "not_found"
    """No such instance, which proves nothing right after its launch."""


# The first pattern that fits decides.
_CLASSES: tuple[tuple[str, ErrorClass], ...] = (
    ("InsufficientInstanceCapacity", ErrorClass.CAPACITY),
    ("InsufficientHostCapacity", ErrorClass.CAPACITY),
    ("SpotMaxPriceTooLow", ErrorClass.CAPACITY),
    ("VcpuLimitExceeded", ErrorClass.QUOTA),
    ("InstanceLimitExceeded", ErrorClass.QUOTA),
    ("MaxSpotInstanceCountExceeded", ErrorClass.QUOTA),
    ("RequestLimitExceeded", ErrorClass.TRANSIENT),
    ("Throttling*", ErrorClass.TRANSIENT),
    ("ThrottledException", ErrorClass.TRANSIENT),
    ("Internal*", ErrorClass.TRANSIENT),
    ("Unavailable", ErrorClass.TRANSIENT),
    ("ServiceUnavailable*", ErrorClass.TRANSIENT),
    ("RequestTimeout*", ErrorClass.TRANSIENT),
    ("5??", ErrorClass.TRANSIENT),
    ("AuthFailure", ErrorClass.CREDENTIALS),
    ("ExpiredToken*", ErrorClass.CREDENTIALS),
    ("InvalidAccessKeyId", ErrorClass.CREDENTIALS),
    ("InvalidClientTokenId", ErrorClass.CREDENTIALS),
    ("InvalidSignatureException", ErrorClass.CREDENTIALS),
    ("MissingAuthenticationToken*", ErrorClass.CREDENTIALS),
    ("RequestExpired", ErrorClass.CREDENTIALS),
    ("SignatureDoesNotMatch", ErrorClass.CREDENTIALS),
    ("UnrecognizedClientException", ErrorClass.CREDENTIALS),
    ("NoCredentials", ErrorClass.CREDENTIALS),
    ("IdempotentParameterMismatch", ErrorClass.BUG),
    ("IdempotentInstanceTerminated", ErrorClass.USED_UP),
    ("InvalidInstanceID.NotFound", ErrorClass.NOT_FOUND),
)

_FAULTS: Mapping[ErrorClass, HostFault] = {
    ErrorClass.CAPACITY: HostFault.CAPACITY,
    ErrorClass.QUOTA: HostFault.QUOTA,
    ErrorClass.CONFIGURATION: HostFault.CONFIGURATION,
    ErrorClass.CREDENTIALS: HostFault.CREDENTIALS,
    ErrorClass.BUG: HostFault.LAUNCH_BUG,
    ErrorClass.USED_UP: HostFault.LAUNCH_BUG,
    ErrorClass.NOT_FOUND: HostFault.CONFIGURATION,
}


def classify(code: str) -> ErrorClass:
    """The class of an AWS error code; one that nobody has classified is never taken for capacity.

    ``UnauthorizedOperation``, ``OptInRequired``, ``InvalidAMIID.*``, ``InvalidParameter*``,
    ``InvalidSubnetID.*``, ``Unsupported`` and all unknown codes are configuration errors:
    waiting does not help, and hiding what AWS said would not either.
    """
    for pattern, error_class in _CLASSES:
        if fnmatchcase(code, pattern):
            return error_class
    return ErrorClass.CONFIGURATION


class Ec2Error(Exception):
    """AWS said no, or nothing at all.

    Attributes
    ----------
    error_class
        What to do about it.
    code
        AWS's own, or the name of what went wrong on the way.
    is_certain
        Whether AWS was asked once and answered: then nothing was done. A repeated question may
        have been carried out the first time.
    """

    def __init__(
        self, code: str, message: str, *, region: str, is_certain: bool, action: str = ""
    ) -> None:
        self.error_class = classify(code)
        self.code = code
        self.message = " ".join(message.split())
        self.region = region
        self.action = action
        self.is_certain = is_certain
        super().__init__(str(self))

    def __str__(self) -> str:
        """What AWS said, and to what."""
        action = f"{self.action} in " if self.action else ""
        return f"{self.code} ({action}{self.region}): {self.message}"

    def as_host_error(self) -> HostFaultError | HostUnavailableError:
        """What a job's step is told."""
        if self.error_class is ErrorClass.TRANSIENT:
            return HostUnavailableError(str(self))
        return HostFaultError(_FAULTS[self.error_class], str(self))


def quota_name(instance_type: str, *, is_spot: bool) -> str:
    """The name under which Service Quotas lists the limit of an instance type."""
    family = instance_type.split(".")[0].lower()
    if family.startswith(("g", "vt")):
        group = "G and VT"
    elif not family.startswith("p"):
        group = "Standard (A, C, D, H, I, M, R, T, Z)"
    elif not is_spot:
        group = "P"
    else:
        generation = family[:2].upper()
        group = "P4, P3 and P2" if generation in ("P2", "P3", "P4") else generation
    return (
        f"All {group} Spot Instance Requests" if is_spot else f"Running On-Demand {group} instances"
    )
