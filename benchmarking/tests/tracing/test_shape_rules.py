"""Every shape rule against PyTorch's own answer on ``meta``."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")

import torch
import torch.nn.functional as F
from torchvision import models

from benchmarking.specs import Phase
from benchmarking.tracing.building import build_on_meta
from benchmarking.tracing.recorder import IterationRecorder
from benchmarking.tracing.shape_memory import ShapeMemory
from benchmarking.tracing.shape_rules import infer, rules

pytestmark = pytest.mark.torch

aten = torch.ops.aten


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def layout(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [layout(item) for item in value]
    return None if value is None else (tuple(value.shape), value.stride(), value.dtype)


CONVOLUTIONS = [
    (meta(2, 8, 9, 11), meta(4, 8, 3, 3), None, [2, 1], [1, 0], [1, 2], False, [0, 0], 1),
    (meta(3, 8, 9, 9), meta(8, 1, 5, 5), meta(8), [1, 1], [2, 2], [1, 1], False, [0, 0], 8),
    (
        meta(2, 8, 9, 9, dtype=torch.float16),
        meta(8, 4, 1, 1, dtype=torch.float16),
        None,
        [2, 2],
        [0, 0],
        [1, 1],
        False,
        [0, 0],
        2,
    ),
]


def pointwise_cases(function: Any) -> list[tuple[Any, ...]]:
    tensors = [
        argument.name
        for argument in function._schema.arguments
        if str(argument.type) == "Tensor" and not argument.kwarg_only
    ]
    extra = [
        0.5
        for argument in function._schema.arguments
        if str(argument.type) != "Tensor"
        and not argument.kwarg_only
        and not argument.has_default_value()
    ]
    return [
        (*[meta(2, 3, 4, dtype=dtype) for _ in tensors], *extra)
        for dtype in (torch.float32, torch.float16)
    ]


def cases() -> list[Any]:
    found: list[tuple[Any, tuple[Any, ...]]] = []
    for function in rules():
        if function is aten.convolution.default:
            found += [(function, case) for case in CONVOLUTIONS]
        elif function is aten.convolution_backward.default:
            for case in CONVOLUTIONS:
                gradient = aten.convolution.default(*case)
                found += [
                    (function, (gradient, case[0], case[1], [case[1].shape[0]], *case[3:], mask))
                    for mask in ([True, True, True], [False, True, False], [True, False, True])
                ]
        elif function is aten.native_batch_norm.default:
            channel = [meta(8) for _ in range(4)]
            for dtype in (torch.float32, torch.float16):
                found.append((function, (meta(2, 8, 4, 4, dtype=dtype), *channel, True, 0.1, 1e-5)))
        elif function is aten.native_batch_norm_backward.default:
            channel = [meta(8) for _ in range(5)]
            mask = [True, True, True]
            found.append(
                (function, (meta(2, 8, 4, 4), meta(2, 8, 4, 4), *channel, True, 1e-5, mask))
            )
        else:
            found += [(function, case) for case in pointwise_cases(function)]
    return [pytest.param(f, a, id=f"{f.name()}-{i}") for i, (f, a) in enumerate(found)]


@pytest.mark.parametrize(("function", "arguments"), cases())
def test_a_rule_gives_the_shapes_that_pytorch_gives(
    function: Any, arguments: tuple[Any, ...]
) -> None:
    assert infer(function, arguments) is not None
    memory = ShapeMemory()
    assert layout(memory.evaluate(function, arguments, {})) == layout(function(*arguments))


def test_batch_norm_writes_no_gradient_that_nobody_asks_for() -> None:
    """As its kernels do; PyTorch's own answer on ``meta`` has it all the same."""
    function = aten.native_batch_norm_backward.default
    tensors = [torch.ones(2, 8, 4, 4), torch.ones(2, 8, 4, 4), *[torch.ones(8) for _ in range(5)]]
    mask = [False, True, True]
    on_meta = [tensor.to("meta") for tensor in tensors]
    ours = ShapeMemory().evaluate(function, (*on_meta, True, 1e-5, mask), {})
    assert ours[0] is None
    assert layout(ours) == layout(function(*tensors, True, 1e-5, mask))


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        (aten.add.Tensor, (meta(2, 3), meta(3))),
        (aten.add.Tensor, (meta(2, 3), meta(2, 3, dtype=torch.float16))),
        (aten.mul.Tensor, (meta(2, 3).t(), meta(3, 2))),
        (aten.mul.Tensor, (meta(2, 3, dtype=torch.long), 2.0)),
        (aten.relu.default, (meta(2, 3, 4, 4).to(memory_format=torch.channels_last),)),
        (
            aten.convolution.default,
            (meta(2, 3, 9), meta(4, 3, 3), None, [1], [0], [1], False, [0], 1),
        ),
    ],
)
def test_rules_decline_what_they_do_not_cover_and_pytorch_answers(
    function: Any, arguments: tuple[Any, ...]
) -> None:
    assert infer(function, arguments) is None
    memory = ShapeMemory()
    expected = layout(function(*arguments))
    assert layout(memory.evaluate(function, arguments, {})) == expected
    assert layout(memory.evaluate(function, arguments, {})) == expected  # now from memory


@pytest.mark.parametrize("name", ["googlenet", "mobilenet_v3_small", "regnet_y_400mf"])
def test_a_whole_iteration_is_the_same_without_rules(name: str) -> None:
    module = build_on_meta(lambda: models.get_model(name, weights=None, **OPTIONS.get(name, {})))

    def record(memory: ShapeMemory) -> IterationRecorder:
        recorder = IterationRecorder(memory)
        module.zero_grad()
        with recorder:
            loss = F.cross_entropy(module(meta(2, 3, 64, 64)), meta(2, dtype=torch.long))
            recorder.phase = Phase.BACKWARD
            loss.backward()
        return recorder

    with_rules, without = record(ShapeMemory()), record(ShapeMemory(use_rules=False))
    assert with_rules.totals == without.totals
    assert with_rules.backward_convolutions == without.backward_convolutions


OPTIONS = {"googlenet": {"aux_logits": False, "init_weights": False}}
