"""BatchNorm that an export folded away."""

from __future__ import annotations

import onnx
import pytest

from benchmarking.onnx_import.reader import read_onnx
from benchmarking.specs import ConvolutionSpec, Phase
from benchmarking.tests.onnx_import.graphs import (
    CLASSIFIER,
    CLASSIFIER_WEIGHTS,
    model,
    node,
    weight,
)


def chain(length: int, names: str, *, residual: bool) -> bytes:
    """Biased convolutions one after the other, every second with a residual."""
    nodes, stored, last = [], [], "images"
    for number in range(length):
        channels = 3 if number == 0 else 8
        kernel, bias = names.format(number), names.format(f"{number}1")
        output = "features" if number == length - 1 else f"x{number}"
        nodes.append(node("Conv", [last, kernel, bias], f"c{number}", pads=[1, 1, 1, 1]))
        if residual and number > 0:
            nodes.append(node("Add", [f"c{number}", last], output))
        else:
            nodes.append(node("Relu", [f"c{number}"], output))
        stored += [weight(kernel, 8, channels, 3, 3), weight(bias, 8)]
        last = output
    return model((*nodes, *CLASSIFIER), (*stored, *CLASSIFIER_WEIGHTS))


def calls(network, name: str) -> int:
    return sum(each.calls for each in network.operations if each.name == name)


def test_names_of_computed_weights_show_a_fold():
    network = read_onnx(chain(2, "onnx::Conv_{}", residual=False), slug="own")
    assert network.note == (
        "BatchNorm was folded into 2 convolutions by the export and is put back here, dropout is "
        "not; export with torch.onnx.export(model.train(), images, 'net.onnx', dynamo=True, "
        "optimize=False) for an exact forecast."
    )
    assert calls(network, "native_batch_norm") == 2
    assert network.convolutions[0].layer == ConvolutionSpec(
        3, 32, 32, 8, 3, 3, padding_height=1, padding_width=1, bias=False
    )
    assert network.parameters == 216 + 576 + 2 * 16 + 90


def test_the_rule_of_an_optimizer_shows_a_fold():
    proto = onnx.load_model_from_string(chain(2, "w{}", residual=False))
    proto.graph.node[0].metadata_props.add(
        key="pkg.onnxscript.rewriter.rule_name", value="FuseBatchNormIntoConv"
    )
    network = read_onnx(proto.SerializeToString(), slug="own")
    assert network.note.startswith("BatchNorm was folded into 1 convolutions")
    assert sorted(use.layer.bias for use in network.convolutions) == [False, True]


def test_residual_network_with_biases_and_no_norm_is_assumed_to_be_folded():
    network = read_onnx(chain(9, "layer{}.weight", residual=True), slug="own")
    assert network.note.startswith("BatchNorm seems to have been folded into 9 convolutions")
    assert calls(network, "native_batch_norm") == 9


@pytest.mark.parametrize(("length", "residual"), [(9, False), (7, True)])
def test_plain_networks_with_biases_are_left_alone(length, residual):
    network = read_onnx(chain(length, "features.{}.weight", residual=residual), slug="own")
    assert network.note == ""
    assert calls(network, "native_batch_norm") == 0
    assert all(use.layer.bias for use in network.convolutions)


def test_a_bias_that_an_optimizer_dropped_is_given_back():
    proto = onnx.load_model_from_string(
        model(
            (node("Conv", ["images", "w"], "features"), *CLASSIFIER),
            (weight("w", 8, 3, 1, 1), *CLASSIFIER_WEIGHTS),
        )
    )
    metadata = proto.graph.node[0].metadata_props
    metadata.add(key="pkg.onnxscript.rewriter.rule_name", value="RemoveOptionalBiasFromConv")
    call = "%c : call_function[target=torch.ops.aten.conv2d.default](args = (%x, %p_w, {}), ...)"
    for bias, expected in (("%p_b", True), ("None", False)):
        del metadata[1:]
        metadata.add(key="pkg.torch.onnx.fx_node", value=call.format(bias))
        network = read_onnx(proto.SerializeToString(), slug="own")
        assert network.convolutions[0].layer.bias is expected
    assert any(each.phase is Phase.OPTIMIZER for each in network.operations)
