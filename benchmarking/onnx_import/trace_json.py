"""A network that was traced elsewhere: the JSON that ``python -m benchmarking.tracing`` writes."""

from __future__ import annotations

from benchmarking.onnx_import.errors import MEBIBYTE, UploadError
from benchmarking.specs import Phase, TracedNetwork
from benchmarking.tracing.errors import FixtureError
from benchmarking.tracing.fixture import parse_traced_networks

LARGEST_JSON_BYTES = 8 * MEBIBYTE
LARGEST_IMAGE_SIZE = 4096
LARGEST_LAYER_CALLS = 20_000
LARGEST_OPERATION_CALLS = 1_000_000
LARGEST_PARAMETERS = 10**11
LARGEST_MULTIPLY_ADDS = 10**15
LARGEST_SAVED_BYTES = 10**13
HOW_TO_WRITE = "write it with python -m benchmarking.tracing FILE.py:function"


def read_trace_json(data: bytes) -> TracedNetwork:
    """Read and check one traced network.

    Raises
    ------
    UploadError
        With one sentence, if the file is not what the tracer writes: another layout, several
        networks, negative or absurd numbers, or totals that do not fit its layers.
    """
    if len(data) > LARGEST_JSON_BYTES:
        raise UploadError(
            f"The file has {len(data) / MEBIBYTE:.0f} MiB; a traced network has at most "
            f"{LARGEST_JSON_BYTES // MEBIBYTE}.",
            code="too_large",
        )
    try:
        networks = parse_traced_networks(data.decode()).networks
    except UnicodeDecodeError as error:
        raise UploadError(f"The file is no UTF-8 text; {HOW_TO_WRITE}.", code="not_json") from error
    except FixtureError as error:
        raise UploadError(f"The file {_tidy(error)}; {HOW_TO_WRITE}.", code="bad_trace") from error
    except (ValueError, RecursionError, OverflowError) as error:
        # A number of thousands of digits is refused by Python itself.
        raise UploadError(f"The file is not JSON; {HOW_TO_WRITE}.", code="not_json") from error
    if len(networks) != 1:
        raise UploadError(
            f"The file holds {len(networks)} traced networks; upload one, at one image size.",
            code="several_networks",
        )
    network = networks[0]
    _check_limits(network)
    _check_totals(network)
    return network


def _tidy(error: FixtureError) -> str:
    text = " ".join(str(error).split())
    return text[:300].rstrip(".")


def _check_limits(network: TracedNetwork) -> None:
    calls = sum(use.count for use in network.convolutions)
    operation_calls = sum(operation.calls for operation in network.operations)
    saved = max(
        network.saved_bytes_per_example,
        network.saved_bytes_fixed,
        network.saved_bytes_amp_per_example,
        network.saved_bytes_amp_fixed,
    )
    if not calls:
        raise UploadError(
            "The network has no convolution layers; forecasts are about convolutional networks.",
            code="no_convolutions",
        )
    for name, value, limit in (
        ("image_size", network.image_size, LARGEST_IMAGE_SIZE),
        ("the number of convolutions", calls, LARGEST_LAYER_CALLS),
        ("the number of operations", operation_calls, LARGEST_OPERATION_CALLS),
        ("parameters", network.parameters, LARGEST_PARAMETERS),
        ("multiply_adds", network.multiply_adds, LARGEST_MULTIPLY_ADDS),
        ("the bytes saved for the backward pass", saved, LARGEST_SAVED_BYTES),
    ):
        if value > limit:
            raise UploadError(
                f"In {network.slug}, {name} is {value:,.0f}; at most {limit:,} is allowed.",
                code="too_large_network",
            )


def _check_totals(network: TracedNetwork) -> None:
    """The layers and the sums over all operations are two views of one iteration."""
    work = sum(use.count * use.layer.multiply_adds for use in network.convolutions)
    if work > network.multiply_adds * 1.001 + 1:
        raise UploadError(
            f"In {network.slug}, the convolutions alone have {work:,} multiply-adds, but "
            f"multiply_adds is {network.multiply_adds:,}.",
            code="inconsistent_trace",
        )
    calls = sum(use.count for use in network.convolutions)
    traced = sum(
        operation.calls
        for operation in network.operations
        if operation.name == "convolution" and operation.phase is Phase.FORWARD
    )
    if calls != traced:
        raise UploadError(
            f"In {network.slug}, {calls} convolutions are listed, but the operations run {traced}.",
            code="inconsistent_trace",
        )
    if network.parameters < network.parameter_tensors:
        raise UploadError(
            f"In {network.slug}, {network.parameter_tensors:,} parameter tensors cannot hold "
            f"{network.parameters:,} parameters.",
            code="inconsistent_trace",
        )
