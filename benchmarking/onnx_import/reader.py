"""From an ONNX file to the network that a forecast is made for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarking.onnx_import import (  # noqa: F401 (each registers its operators)
    constants,
    dropout,
    elementwise,
    layers,
    normalization,
    pooling,
    resizing,
    shapes,
)
from benchmarking.onnx_import.errors import LARGEST_FILE_BYTES, OnnxError
from benchmarking.onnx_import.graph import Graph, parse_graph
from benchmarking.onnx_import.lowering import COMPUTATIONS, LOWERINGS, GraphRun
from benchmarking.onnx_import.patterns import Unfolded, join_patterns, unfold_batch_norms
from benchmarking.onnx_import.tape import FLOAT, LONG, Tape, Tensor
from benchmarking.specs import ConvolutionUse, OperationSpec, Phase, TracedNetwork
from benchmarking.tracing.assembly import (
    BATCH_SIZES,
    LARGEST_IMAGE_SIZE,
    BatchDependenceError,
    IterationTotals,
    UntrainedLayerError,
    assemble_network,
    convolution_uses,
)

FAMILY = "own"

_INTERNAL = frozenset({"Silu", "Linear"})

UNFOLDED_EXPORT = (
    "export with torch.onnx.export(model.train(), images, 'net.onnx', dynamo=True, optimize=False)"
)


def supported_operators() -> tuple[str, ...]:
    """Names of the ONNX operators that are covered, sorted."""
    return tuple(sorted({*LOWERINGS, *COMPUTATIONS} - _INTERNAL))


def read_onnx(data: bytes | Path, *, slug: str, image_size: int | None = None) -> TracedNetwork:
    """Derive what tracing a training iteration of the graph's network would give.

    Parameters
    ----------
    data
        The file's content or its path. Weights may be missing; only their shapes are read.
    slug
        Name that the trace carries.
    image_size
        Height and width of the images in pixels; needed where the graph leaves them open, else
        it must be the graph's own.

    Raises
    ------
    OnnxError
        With one sentence, if the file is no ONNX model, or its network is not covered.
    """
    graph = parse_graph(_content(data), supported_operators())
    channels, size, channels_last = _image(graph, image_size)
    shape = (size, size, channels) if channels_last else (channels, size, size)
    unfolded = unfold_batch_norms(join_patterns(graph))
    half_small, half_large = (
        _iteration(unfolded.graph, batch, shape, half=True).kept_bytes for batch in BATCH_SIZES
    )
    small, large = (_iteration(unfolded.graph, batch, shape, half=False) for batch in BATCH_SIZES)
    try:
        network = assemble_network(
            slug=slug,
            family=FAMILY,
            image_size=size,
            parameter_elements=[tensor.elements for tensor in small.parameters],
            iterations=(
                IterationTotals(small.totals, small.kept_bytes, half_small),
                IterationTotals(large.totals, large.kept_bytes, half_large),
            ),
            optimizer_steps=_optimizer_steps(small),
            convolutions=_convolution_uses(small),
            normalizes_one_value=small.normalizes_one_value,
            note=_note(unfolded),
        )
    except BatchDependenceError as error:
        raise OnnxError(
            "The graph does other work for another batch size.", code="batch_size"
        ) from error
    if any(_is_shrinking(operation) for operation in network.operations):
        raise OnnxError(
            "The graph is made for one batch size; export it with a symbolic batch dimension.",
            code="batch_size",
        )
    return network


def _is_shrinking(operation: OperationSpec) -> bool:
    """Whether more examples would be less work, or none at all would be negative work."""
    return (
        min(operation.bytes_per_example, operation.bytes_fixed, operation.multiply_adds_per_example)
        < 0
    )


def _content(data: bytes | Path) -> bytes:
    if isinstance(data, bytes):
        return data
    try:
        with data.open("rb") as file:
            # One byte more than allowed is enough to know that it is too large.
            return file.read(LARGEST_FILE_BYTES + 1)
    except OSError as error:
        raise OnnxError(
            f"The file cannot be read: {error.strerror or error}.", code="unreadable"
        ) from error


def _image(graph: Graph, image_size: int | None) -> tuple[int, int, bool]:
    """Channels, size in pixels, and whether the channels come last."""
    shape = graph.input_shape
    if len(shape) != 4:
        raise OnnxError(
            "The graph's input must be images of shape batch x channels x height x width; it has "
            f"{len(shape)} dimensions.",
            code="input_shape",
        )
    channels_last = shape[1] not in (1, 3, 4) and shape[3] in (1, 3, 4)
    channels = shape[3] if channels_last else shape[1]
    height, width = shape[1:3] if channels_last else shape[2:4]
    if channels is None:
        raise OnnxError("The graph leaves the number of image channels open.", code="input_shape")
    fixed = {extent for extent in (height, width) if extent is not None}
    if len(fixed) > 1:
        raise OnnxError(
            f"The graph is made for images of {height} x {width} pixels; only square images are "
            "covered.",
            code="not_square",
        )
    if image_size is not None and fixed and image_size not in fixed:
        raise OnnxError(
            f"The graph is made for images of {min(fixed)} pixels, not {image_size}; export it "
            "with a symbolic height and width to choose.",
            code="image_size",
        )
    size = next(iter(fixed), image_size)
    if size is None:
        raise OnnxError(
            "The graph leaves the image size open; give the image size in pixels.",
            code="image_size_needed",
        )
    if not 1 <= size <= LARGEST_IMAGE_SIZE:
        raise OnnxError(
            f"The image size {size} is not between 1 and {LARGEST_IMAGE_SIZE} pixels.",
            code="image_size",
        )
    return channels, size, channels_last


def _iteration(graph: Graph, batch_size: int, image_shape: Sequence[int], *, half: bool) -> Tape:
    """Forward, loss and, in full precision, backward of one batch."""
    tape = Tape(half=half)
    run = GraphRun(graph, tape, batch_size=batch_size, image_shape=tuple(image_shape))
    run.run(graph)
    if not tape.forward_convolutions:
        raise OnnxError(
            "The graph has no convolution layers; forecasts are about convolutional networks.",
            code="no_convolutions",
        )
    loss = _loss(run, graph)
    if not half:
        tape.run_backward(loss)
    return tape


def _loss(run: GraphRun, graph: Graph) -> Tensor:
    """Cross entropy of every output of class scores, added up; the first is the network's."""
    outputs = [run.tensors[name] for name in graph.outputs if name in run.tensors]
    scores = [
        tensor
        for tensor in outputs
        if len(tensor.shape) >= 2 and tensor.shape[0] == run.batch_size and tensor.requires_grad
    ]
    if not scores:
        raise OnnxError(
            "The graph has no output of class scores with shape batch x classes.",
            code="no_scores",
        )
    heads = [scores[0], *(t for t in scores[1:] if t.shape == scores[0].shape)]
    total = _cross_entropy(run.tape, heads[0])
    for head in heads[1:]:
        auxiliary = elementwise.apply_unary(
            run.tape, elementwise.UNARY["MulScalar"], _cross_entropy(run.tape, head)
        )
        total = elementwise.add(run.tape, total, auxiliary)
    return total


def _cross_entropy(tape: Tape, scores: Tensor) -> Tensor:
    logarithms = elementwise.apply_unary(tape, elementwise.UNARY["LogSoftmax"], scores)
    targets = tape.new((scores.shape[0], *scores.shape[2:]), LONG)
    weight, loss = tape.new(()), tape.new(())
    name = "nll_loss" if len(scores.shape) == 2 else "nll_loss2d"
    tape.emit(f"{name}_forward", (logarithms, targets), (loss, weight))

    def backward(gradients: list[Tensor | None]) -> Sequence[Tensor | None]:
        into = tape.new(scores.shape)
        tape.emit(f"{name}_backward", (gradients[0], logarithms, targets, weight), (into,))
        return (into,)

    tape.record((logarithms,), (loss,), (logarithms, targets, weight), backward)
    return loss


def _optimizer_steps(tape: Tape) -> list[OperationSpec]:
    """SGD with momentum and weight decay: decay, momentum (two operations), update."""
    tensors = len(tape.parameters)
    elements = sum(tensor.elements for tensor in tape.parameters)
    full = float(elements * FLOAT)
    return [
        OperationSpec("add", Phase.OPTIMIZER, tensors, 0.0, 3 * full),
        OperationSpec("add_", Phase.OPTIMIZER, 2 * tensors, 0.0, 6 * full),
        OperationSpec("mul_", Phase.OPTIMIZER, tensors, 0.0, 2 * full),
    ]


def _convolution_uses(tape: Tape) -> tuple[ConvolutionUse, ...]:
    try:
        return convolution_uses(tape.forward_convolutions, tape.backward_convolutions)
    except UntrainedLayerError as error:
        raise OnnxError(
            f"Convolution {error.layer.key} does not lead to the output of class scores; "
            "forecasts are about training every layer.",
            code="untrained_layer",
        ) from error


def _note(unfolded: Unfolded) -> str:
    if not unfolded.folded:
        return ""
    seems = "seems to have been" if unfolded.assumed else "was"
    return (
        f"BatchNorm {seems} folded into {unfolded.folded} convolutions by the export and is put "
        f"back here, dropout is not; {UNFOLDED_EXPORT} for an exact forecast."
    )
