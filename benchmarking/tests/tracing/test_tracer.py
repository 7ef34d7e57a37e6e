"""One training iteration of small networks, checked against figures worked out by hand."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch
import torch.nn.functional as F
from torch import nn

from benchmarking.specs import ConvolutionSpec, ConvolutionUse, OperationSpec, Phase, TracedNetwork
from benchmarking.tests.tracing.networks import Head, classifier, trace
from benchmarking.tracing.building import build_on_meta
from benchmarking.tracing.errors import UntraceableError
from benchmarking.tracing.recorder import IterationRecorder
from benchmarking.tracing.shape_memory import ShapeMemory
from benchmarking.tracing.tracer import NetworkTracer, trace_network

pytestmark = pytest.mark.torch


def operation(traced: TracedNetwork, name: str, phase: Phase) -> OperationSpec:
    (found,) = (o for o in traced.operations if (o.name, o.phase) == (name, phase))
    return found


def test_a_plain_convolution_is_recorded_with_its_settings() -> None:
    traced = trace(lambda: classifier(nn.Conv2d(3, 8, 3, stride=2, padding=1), channels=8))
    layer = ConvolutionSpec(3, 16, 16, 8, 3, 3, 2, 2, 1, 1, bias=True)
    assert traced.convolutions == (ConvolutionUse(layer, 1, needs_input_gradient=False),)
    assert traced.parameters == 3 * 8 * 9 + 8 + 8 * 10 + 10
    assert traced.parameter_tensors == 4
    assert traced.multiply_adds == layer.multiply_adds + 8 * 10
    assert traced.minimum_batch_size == 1
    assert traced.note == ""


@pytest.mark.parametrize(
    ("convolution", "layer"),
    [
        (
            lambda: nn.Conv2d(8, 8, 3, padding=1, groups=8, bias=False),
            ConvolutionSpec(8, 16, 16, 8, 3, 3, 1, 1, 1, 1, groups=8),
        ),
        (
            lambda: nn.Conv2d(8, 16, 3, padding=2, dilation=2, groups=4),
            ConvolutionSpec(8, 16, 16, 16, 3, 3, 1, 1, 2, 2, 2, 2, 4, bias=True),
        ),
        (
            lambda: nn.Conv2d(8, 4, (1, 7), stride=(2, 1), padding=(0, 3), bias=False),
            ConvolutionSpec(8, 16, 16, 4, 1, 7, 2, 1, 0, 3),
        ),
        (
            lambda: nn.Conv2d(8, 4, (7, 1), dilation=(2, 1), padding=(1, 0), bias=False),
            ConvolutionSpec(8, 16, 16, 4, 7, 1, 1, 1, 1, 0, 2, 1),
        ),
        (
            lambda: nn.Conv2d(8, 4, 5, padding="same", bias=False),
            ConvolutionSpec(8, 16, 16, 4, 5, 5, 1, 1, 2, 2),
        ),
        (
            lambda: nn.Conv2d(8, 4, 3, padding="valid", bias=False),
            ConvolutionSpec(8, 16, 16, 4, 3, 3),
        ),
    ],
    ids=["depthwise", "dilated and grouped", "wide kernel", "tall kernel", "same", "valid"],
)
def test_unusual_convolutions(convolution: Any, layer: ConvolutionSpec) -> None:
    traced = trace(
        lambda: classifier(
            nn.Conv2d(3, 8, 1, bias=False),
            convolution(),
            channels=layer.out_channels,
        )
    )
    assert ConvolutionUse(layer, 1, needs_input_gradient=True) in traced.convolutions
    assert len(traced.convolutions) == 2
    first = ConvolutionSpec(3, 16, 16, 8, 1, 1)
    forward = operation(traced, "convolution", Phase.FORWARD)
    assert forward.calls == 2
    assert forward.multiply_adds_per_example == first.multiply_adds + layer.multiply_adds
    backward = operation(traced, "convolution_backward", Phase.BACKWARD)
    assert backward.multiply_adds_per_example == first.multiply_adds + 2 * layer.multiply_adds


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel:UserWarning")
def test_padding_that_differs_between_sides_is_padded_before_the_convolution() -> None:
    traced = trace(lambda: classifier(nn.Conv2d(3, 8, 4, padding="same", bias=False), channels=8))
    (use,) = traced.convolutions
    assert use.layer == ConvolutionSpec(3, 17, 17, 8, 4, 4, 1, 1, 1, 1)
    assert (use.layer.out_height, use.layer.out_width) == (16, 16)
    padded = operation(traced, "constant_pad_nd", Phase.FORWARD)
    assert padded.bytes_per_example == 4 * 3 * (16 * 16 + 17 * 17)


def test_a_second_convolution_of_the_image_needs_no_input_gradient() -> None:
    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Conv2d(3, 3, 3, padding=1, bias=False)
            self.deep = nn.Conv2d(3, 3, 3, padding=1, bias=False)
            self.side = nn.Conv2d(3, 3, 3, padding=1, bias=False)
            self.head = Head(3)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.deep(self.body(images)) + self.side(images))

    layer = ConvolutionSpec(3, 16, 16, 3, 3, 3, 1, 1, 1, 1)
    assert trace(Branches).convolutions == (
        ConvolutionUse(layer, 2, needs_input_gradient=False),
        ConvolutionUse(layer, 1, needs_input_gradient=True),
    )


def test_a_shared_module_counts_as_often_as_it_is_called() -> None:
    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Conv2d(3, 8, 1)
            self.shared = nn.Conv2d(8, 8, 3, padding=1, bias=False)
            self.head = Head(8)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.shared(self.shared(self.stem(images))))

    traced = trace(Shared)
    layer = ConvolutionSpec(8, 16, 16, 8, 3, 3, 1, 1, 1, 1)
    assert ConvolutionUse(layer, 2) in traced.convolutions
    assert traced.parameters == 3 * 8 + 8 + 8 * 8 * 9 + 80 + 10


def test_modules_that_share_a_parameter_keep_sharing_it_on_meta() -> None:
    def tied() -> nn.Module:
        first = nn.Conv2d(8, 8, 1, bias=False)
        second = nn.Conv2d(8, 8, 1, bias=False)
        second.weight = first.weight
        return classifier(nn.Conv2d(3, 8, 1, bias=False), first, second, channels=8)

    module = build_on_meta(tied)
    assert module[1].weight is module[2].weight
    assert trace(tied).parameters == 3 * 8 + 8 * 8 + 80 + 10


def test_bytes_of_operations_split_into_a_part_per_example_and_a_fixed_part() -> None:
    traced = trace(
        lambda: classifier(nn.Conv2d(3, 8, 1, bias=False), nn.ReLU(inplace=True), channels=8)
    )
    pixels = 16 * 16
    assert operation(traced, "convolution", Phase.FORWARD) == OperationSpec(
        name="convolution",
        phase=Phase.FORWARD,
        calls=1,
        bytes_per_example=4 * (3 + 8) * pixels,
        bytes_fixed=4 * 3 * 8,
        multiply_adds_per_example=3 * 8 * pixels,
    )
    # Reads the gradient, the image and the weight; writes the gradient of the weight alone.
    assert operation(traced, "convolution_backward", Phase.BACKWARD) == OperationSpec(
        name="convolution_backward",
        phase=Phase.BACKWARD,
        calls=1,
        bytes_per_example=4 * (8 + 3) * pixels,
        bytes_fixed=2 * 4 * 3 * 8,
        multiply_adds_per_example=3 * 8 * pixels,
    )
    relu = operation(traced, "relu_", Phase.FORWARD)
    assert (relu.bytes_per_example, relu.bytes_fixed) == (2 * 4 * 8 * pixels, 0)
    linear = operation(traced, "addmm", Phase.FORWARD)
    assert (linear.bytes_per_example, linear.bytes_fixed) == (4 * (8 + 10), 4 * (80 + 10))
    assert linear.multiply_adds_per_example == 80
    weight_gradient_and_input_gradient = operation(traced, "mm", Phase.BACKWARD)
    assert weight_gradient_and_input_gradient.calls == 2
    assert weight_gradient_and_input_gradient.multiply_adds_per_example == 2 * 80


def test_views_are_counted_and_move_no_bytes() -> None:
    traced = trace(lambda: nn.Sequential(nn.Conv2d(3, 1, 1), nn.Flatten(), nn.Linear(256, 10)))
    view = operation(traced, "view", Phase.FORWARD)
    assert (view.calls, view.bytes_per_example, view.bytes_fixed) == (1, 0, 0)
    transpose = operation(traced, "t", Phase.FORWARD)
    assert (transpose.calls, transpose.bytes_per_example, transpose.bytes_fixed) == (1, 0, 0)


def test_the_optimizer_step_is_sgd_with_momentum_and_weight_decay_in_steady_state() -> None:
    traced = trace(lambda: classifier(nn.Conv2d(3, 8, 1), channels=8))
    size = 4 * traced.parameters
    steps = {o.name: o for o in traced.operations if o.phase is Phase.OPTIMIZER}
    assert steps.keys() == {"add", "add_", "mul_"}
    # gradient + decay * weight; momentum * buffer; buffer + gradient; weight - rate * buffer
    assert (steps["add"].calls, steps["add"].bytes_fixed) == (4, 3 * size)
    assert (steps["mul_"].calls, steps["mul_"].bytes_fixed) == (4, 2 * size)
    assert (steps["add_"].calls, steps["add_"].bytes_fixed) == (8, 6 * size)
    assert all(o.bytes_per_example == 0 for o in steps.values())


def test_calls_equal_those_of_a_real_iteration_on_the_cpu() -> None:
    def factory() -> nn.Module:
        return classifier(
            nn.Conv2d(3, 8, 3, bias=False),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 8, 3, groups=8),
            nn.SiLU(),
            nn.Dropout(0.1),
            channels=8,
        )

    module = factory()
    images, labels = torch.rand(2, 3, 16, 16), torch.tensor([1, 2])
    recorder = IterationRecorder(ShapeMemory(use_rules=False))
    with recorder:
        loss = F.cross_entropy(module(images), labels)
        recorder.phase = Phase.BACKWARD
        loss.backward()
    real = {key: totals.calls for key, totals in recorder.totals.items()}
    traced = {
        (o.phase, o.name): o.calls
        for o in trace(factory).operations
        if o.phase is not Phase.OPTIMIZER
    }
    assert traced == real


def test_batch_norm_over_one_value_needs_a_batch_of_two() -> None:
    def factory() -> nn.Module:
        return classifier(
            nn.Conv2d(3, 8, 3, stride=2, padding=1),
            nn.BatchNorm2d(8),
            nn.Conv2d(8, 8, 3, stride=2, padding=1),
            nn.BatchNorm2d(8),
            channels=8,
        )

    assert trace(factory, image_size=4).minimum_batch_size == 2
    assert trace(factory, image_size=5).minimum_batch_size == 1
    module = factory()
    with pytest.raises(ValueError, match="more than 1 value per channel"):
        module(torch.rand(1, 3, 4, 4))
    assert module(torch.rand(1, 3, 5, 5)).shape == (1, 10)


class WithHead(nn.Module):
    """Returns two outputs; the second one's kernel needs an 8 px image."""

    def __init__(self, heads: bool = True) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 1)
        self.head = Head(8)
        self.side = nn.Sequential(nn.Conv2d(8, 4, 8), Head(4)) if heads else None

    def forward(self, images: torch.Tensor) -> object:
        features = self.stem(images)
        if self.side is None:
            return self.head(features)
        return {"main": self.head(features), "side": self.side(features), "unused": None}


def trace_with_heads(image_size: int) -> TracedNetwork:
    return trace_network(
        WithHead,
        slug="headed",
        family="own",
        image_size=image_size,
        auxiliary_weight=0.3,
        factory_without_heads=lambda: WithHead(heads=False),
    )


def test_an_auxiliary_head_takes_part_in_the_loss() -> None:
    traced = trace_with_heads(8)
    assert traced.note == ""
    assert len(traced.convolutions) == 2
    assert operation(traced, "_log_softmax", Phase.FORWARD).calls == 2
    assert operation(traced, "mul", Phase.FORWARD).calls == 1


def test_an_auxiliary_head_that_does_not_fit_is_left_out_and_the_note_says_so() -> None:
    traced = trace_with_heads(7)
    assert traced.note == "Traced without its auxiliary head, which 7 px images do not fit."
    assert len(traced.convolutions) == 1
    assert operation(traced, "_log_softmax", Phase.FORWARD).calls == 1


def test_a_network_whose_layers_learn_their_shapes_is_traced() -> None:
    lazy = trace(lambda: nn.Sequential(nn.LazyConv2d(8, 3), nn.Flatten(), nn.LazyLinear(10)))
    eager = trace(
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
    )
    assert lazy == eager


def test_a_network_that_touches_its_weights_while_it_is_built_is_traced() -> None:
    def factory() -> nn.Module:
        convolution = nn.Conv2d(3, 8, 1)
        convolution.weight.data = torch.ones(8, 3, 1, 1)
        assert float(convolution.weight.detach().sum()) == 24
        return classifier(convolution, channels=8)

    assert trace(factory) == trace(lambda: classifier(nn.Conv2d(3, 8, 1), channels=8))


def test_images_of_one_channel() -> None:
    traced = trace(lambda: classifier(nn.Conv2d(1, 8, 3), channels=8), image_size=28, in_channels=1)
    (use,) = traced.convolutions
    assert use.layer == ConvolutionSpec(1, 28, 28, 8, 3, 3, bias=True)


def test_one_tracer_gives_the_same_at_every_size_as_separate_ones() -> None:
    def factory() -> nn.Module:
        return classifier(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), channels=8)

    tracer = NetworkTracer(factory, slug="small", family="own")
    assert [tracer.trace(size) for size in (32, 8, 32)] == [
        trace(factory, image_size=size) for size in (32, 8, 32)
    ]


def frozen_stem() -> nn.Module:
    module = classifier(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 1), channels=8)
    module[0].requires_grad_(False)
    return module


class DependsOnBatch(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = classifier(nn.Conv2d(3, 8, 1), channels=8)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.stack([self.body(image[None])[0] for image in images])


class ReadsValues(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = classifier(nn.Conv2d(3, 8, 1), channels=8)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.body(images) * (2.0 if float(images.sum()) > 0 else 1.0)


def fails() -> nn.Module:
    raise RuntimeError("weights.pt is missing")


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (lambda: classifier(nn.Conv2d(3, 8, 17), channels=8), "16 px images: .*[Kk]ernel size"),
        (lambda: classifier(nn.Conv2d(4, 8, 3), channels=8), "16 px images: .*channel"),
        (lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.MaxPool2d(20), Head(8)), "too small"),
        (lambda: nn.ConvTranspose2d(3, 8, 3), "transposed convolution"),
        (lambda: nn.Sequential(nn.Flatten(2), nn.Conv1d(3, 8, 3)), "1-dimensional convolution"),
        (lambda: "a text", "returned str, not a torch.nn.Module"),
        (lambda: nn.Flatten(), "no parameters"),
        (lambda: nn.Sequential(nn.Conv2d(3, 8, 16), nn.Flatten(0)), "class scores"),
        (frozen_stem, "3x16x16-8k1x1s1x1p0x0d1x1g1b is not trained"),
        (DependsOnBatch, "other operations for a batch of 2 than for a batch of 3"),
        (ReadsValues, "small cannot train on 16 px images"),
        (fails, "building it failed: weights.pt is missing"),
    ],
)
def test_what_cannot_be_traced_is_refused_with_a_reason(factory: Any, message: str) -> None:
    with pytest.raises(UntraceableError, match=message) as caught:
        trace(factory)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("image_size", [0, -1, 4097])
def test_an_absurd_image_size_is_refused(image_size: int) -> None:
    with pytest.raises(UntraceableError, match="is not between 1 and 4096 pixels"):
        trace(lambda: classifier(nn.Conv2d(3, 8, 1), channels=8), image_size=image_size)
