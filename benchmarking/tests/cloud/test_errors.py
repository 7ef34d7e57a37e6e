"""Each error code of AWS has one class, and an unknown one is shown and never waited for."""

from __future__ import annotations

import pytest

from benchmarking.hosts.base import HostFault, HostFaultError, HostUnavailableError
from benchmarking.hosts.ec2.errors import Ec2Error, ErrorClass, classify, quota_name

CLASSES = {
    ErrorClass.CAPACITY: (
        "InsufficientInstanceCapacity",
        "InsufficientHostCapacity",
        "SpotMaxPriceTooLow",
    ),
    ErrorClass.QUOTA: (
        "VcpuLimitExceeded",
        "InstanceLimitExceeded",
        "MaxSpotInstanceCountExceeded",
    ),
    ErrorClass.TRANSIENT: (
        "RequestLimitExceeded",
        "Throttling",
        "ThrottlingException",
        "InternalError",
        "InternalFailure",
        "Unavailable",
        "ServiceUnavailable",
        "RequestTimeout",
        "503",
    ),
    ErrorClass.CONFIGURATION: (
        "UnauthorizedOperation",
        "OptInRequired",
        "InvalidAMIID.NotFound",
        "InvalidAMIID.Malformed",
        "InvalidParameterValue",
        "InvalidParameterCombination",
        "InvalidSubnetID.NotFound",
        "Unsupported",
        "AccessDeniedException",
        "InsufficientFreeAddressesInSubnet",
        "NobodyKnowsThisOne",
        "",
    ),
    ErrorClass.CREDENTIALS: (
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "InvalidClientTokenId",
        "RequestExpired",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
        "NoCredentials",
    ),
    ErrorClass.BUG: ("IdempotentParameterMismatch",),
    ErrorClass.USED_UP: ("IdempotentInstanceTerminated",),
    ErrorClass.NOT_FOUND: ("InvalidInstanceID.NotFound",),
}


@pytest.mark.parametrize(
    ("code", "error_class"), [(code, name) for name, codes in CLASSES.items() for code in codes]
)
def test_r5_class_of_each_code(code: str, error_class: ErrorClass) -> None:
    assert classify(code) is error_class


@pytest.mark.parametrize(
    ("code", "fault"),
    [
        ("InsufficientInstanceCapacity", HostFault.CAPACITY),
        ("VcpuLimitExceeded", HostFault.QUOTA),
        ("InvalidParameterValue", HostFault.CONFIGURATION),
        ("AuthFailure", HostFault.CREDENTIALS),
        ("IdempotentParameterMismatch", HostFault.LAUNCH_BUG),
    ],
)
def test_r5_what_a_step_is_told(code: str, fault: HostFault) -> None:
    error = Ec2Error(
        code, "Word\n for  word.", region="us-east-1", is_certain=True, action="RunInstances"
    ).as_host_error()
    assert isinstance(error, HostFaultError)
    assert (error.fault, error.message) == (
        fault,
        f"{code} (RunInstances in us-east-1): Word for word.",
    )


def test_r5_transient_error_is_no_fault() -> None:
    error = Ec2Error("Unavailable", "Later.", region="us-east-1", is_certain=True)
    assert isinstance(error.as_host_error(), HostUnavailableError)


@pytest.mark.parametrize(
    ("instance_type", "is_spot", "name"),
    [
        ("g4dn.xlarge", False, "Running On-Demand G and VT instances"),
        ("g6e.2xlarge", True, "All G and VT Spot Instance Requests"),
        ("p4d.24xlarge", False, "Running On-Demand P instances"),
        ("p3.2xlarge", True, "All P4, P3 and P2 Spot Instance Requests"),
        ("p5.48xlarge", True, "All P5 Spot Instance Requests"),
        ("c7i.large", False, "Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances"),
    ],
)
def test_r5_quota_bears_the_name_that_service_quotas_shows(
    instance_type: str, is_spot: bool, name: str
) -> None:
    assert quota_name(instance_type, is_spot=is_spot) == name
