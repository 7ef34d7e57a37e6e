"""What is derived from a graph whose figures can be counted by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import TensorProto

from benchmarking.onnx_import.errors import OnnxError
from benchmarking.onnx_import.reader import read_onnx, supported_operators
from benchmarking.specs import ConvolutionSpec, ConvolutionUse, OperationSpec, Phase, TracedNetwork
from benchmarking.tests.onnx_import.graphs import (
    CLASSIFIER,
    CLASSIFIER_WEIGHTS,
    model,
    network_of,
    node,
    small_network,
    weight,
    whole_numbers,
)


def operations(network: TracedNetwork) -> dict[tuple[Phase, str], OperationSpec]:
    return {(each.phase, each.name): each for each in network.operations}


def read(data: bytes) -> TracedNetwork:
    return read_onnx(data, slug="own")


def test_small_network_is_derived_completely():
    network = read(small_network())
    layer = ConvolutionSpec(3, 32, 32, 8, 3, 3, 2, 2, 1, 1)
    assert network.convolutions == (ConvolutionUse(layer, 1, needs_input_gradient=False),)
    assert (network.slug, network.image_size, network.minimum_batch_size) == ("own", 32, 1)
    assert network.parameters == 8 * 27 + 16 + 80 + 10
    assert network.parameter_tensors == 5
    assert network.multiply_adds == 8 * 27 * 256 + 80
    assert network.note == ""

    found = operations(network)
    features = 8 * 16 * 16 * 4
    images = 3 * 32 * 32 * 4
    convolution = found[Phase.FORWARD, "convolution"]
    assert convolution.calls == 1
    assert convolution.bytes_per_example == images + features
    assert convolution.bytes_fixed == 8 * 27 * 4
    backward = found[Phase.BACKWARD, "convolution_backward"]
    # The images need no gradient, so their gradient is not written.
    assert backward.bytes_per_example == images + features
    assert backward.multiply_adds_per_example == 8 * 27 * 256
    assert found[Phase.FORWARD, "relu_"].bytes_per_example == 2 * features
    assert found[Phase.BACKWARD, "threshold_backward"].bytes_per_example == 3 * features
    norm = found[Phase.BACKWARD, "native_batch_norm_backward"]
    assert (norm.bytes_per_example, norm.bytes_fixed) == (3 * features, 7 * 8 * 4)
    assert found[Phase.OPTIMIZER, "add_"].calls == 10
    assert found[Phase.OPTIMIZER, "mul_"].bytes_fixed == 2 * 4 * network.parameters


def test_kept_bytes_count_each_storage_once_and_no_parameters():
    network = read(small_network())
    images, features = 3 * 32 * 32 * 4, 8 * 16 * 16 * 4
    pooled, scores, target = 8 * 4, 10 * 4, 8
    assert network.saved_bytes_per_example == images + 2 * features + pooled + scores + target
    assert network.saved_bytes_fixed == 4 * 8 * 4 + 4
    # Under mixed precision activations take half, class scores stay in full precision, and the
    # half-precision copies of the weights are kept.
    half = (images + 2 * features + pooled) / 2
    assert network.saved_bytes_amp_per_example == half + scores + target
    assert network.saved_bytes_amp_fixed == 4 * 8 * 4 + 4 + (8 * 27 + 80) * 2


def test_a_file_and_its_bytes_give_the_same(tmp_path: Path):
    path = tmp_path / "net.onnx"
    path.write_bytes(small_network())
    assert read_onnx(path, slug="own") == read(small_network())


@pytest.mark.parametrize("batch", ["n", None, 0, 1, 7])
def test_batch_dimension_does_not_matter(batch):
    assert read(small_network(input_shape=(batch, 3, 32, 32))) == read(small_network())


def test_fixed_batch_size_in_a_reshape_is_replaced():
    nodes = (
        node("Conv", ["images", "w"], "conv", pads=[1, 1, 1, 1]),
        node("Reshape", ["conv", "to"], "flat"),
        node("Gemm", ["flat", "fc"], "scores", transB=1),
    )
    stored = (weight("w", 2, 3, 3, 3), whole_numbers("to", 1, 2 * 64), weight("fc", 10, 128))
    network = read(model(nodes, stored, input_shape=(1, 3, 8, 8)))
    assert network.multiply_adds == 54 * 64 + 1280


def test_image_size_is_asked_for_where_the_graph_leaves_it_open():
    data = small_network(input_shape=("n", 3, "h", "w"))
    with pytest.raises(OnnxError) as raised:
        read(data)
    assert raised.value.code == "image_size_needed"
    network = read_onnx(data, slug="own", image_size=64)
    assert network.convolutions[0].layer.in_height == 64
    assert network.image_size == 64


def test_images_with_channels_last_are_recognised():
    nodes = (
        node("Transpose", ["images"], "first", perm=[0, 3, 1, 2]),
        node("Conv", ["first", "w"], "features"),
        *CLASSIFIER,
    )
    network = read(
        model(nodes, (weight("w", 8, 3, 1, 1), *CLASSIFIER_WEIGHTS), input_shape=("n", 32, 32, 3))
    )
    assert network.convolutions[0].layer == ConvolutionSpec(3, 32, 32, 8, 1, 1)
    assert not network.convolutions[0].needs_input_gradient


def test_a_scaling_of_the_images_is_no_parameter():
    nodes = (
        node("Sub", ["images", "mean"], "centred"),
        node("Conv", ["centred", "w"], "features"),
        *CLASSIFIER,
    )
    network = read(
        model(nodes, (weight("mean", 1, 3, 1, 1), weight("w", 8, 3, 1, 1), *CLASSIFIER_WEIGHTS))
    )
    assert not network.convolutions[0].needs_input_gradient
    assert network.parameter_tensors == 3


def test_external_weights_are_not_needed():
    conv = weight("conv.weight", 8, 3, 3, 3)
    conv.data_location = TensorProto.EXTERNAL
    conv.external_data.add(key="location", value="/nowhere/weights.bin")
    nodes = (node("Conv", ["images", "conv.weight"], "features"), *CLASSIFIER)
    network = read(model(nodes, (conv, *CLASSIFIER_WEIGHTS)))
    assert network.convolutions[0].layer.weight_elements == 216


def test_unequal_padding_becomes_an_operation():
    nodes = (
        node("Conv", ["images", "w"], "features", auto_pad="SAME_UPPER", strides=[2, 2]),
        *CLASSIFIER,
    )
    network = read(model(nodes, (weight("w", 8, 3, 3, 3), *CLASSIFIER_WEIGHTS)))
    # 32 pixels at stride 2 need one more pixel below and to the right only.
    assert network.convolutions[0].layer == ConvolutionSpec(3, 33, 33, 8, 3, 3, 2, 2)
    padded = operations(network)[Phase.FORWARD, "constant_pad_nd"]
    assert padded.bytes_per_example == 3 * (32 * 32 + 33 * 33) * 4


def test_a_residual_adds_up_gradients():
    network = read(
        network_of(
            node("Conv", ["conv", "w"], "branch"),
            node("Add", ["branch", "conv"], "features"),
            stored=(weight("w", 8, 8, 1, 1),),
        )
    )
    added = operations(network)[Phase.BACKWARD, "add"]
    assert (added.calls, added.bytes_per_example) == (1, 3 * 8 * 32 * 32 * 4)
    assert [use.needs_input_gradient for use in network.convolutions] == [False, True]


@pytest.mark.parametrize(
    ("nodes", "forward", "backward"),
    [
        (
            (node("Sigmoid", ["conv"], "gate"), node("Mul", ["conv", "gate"], "features")),
            "silu",
            "silu_backward",
        ),
        (
            (node("HardSigmoid", ["conv"], "gate"), node("Mul", ["gate", "conv"], "features")),
            "hardswish",
            "hardswish_backward",
        ),
        (
            (
                node("Softplus", ["conv"], "soft"),
                node("Tanh", ["soft"], "gate"),
                node("Mul", ["conv", "gate"], "features"),
            ),
            "mish",
            "softplus",
        ),
        (
            (
                node("Div", ["conv", "root2"], "scaled"),
                node("Erf", ["scaled"], "erf"),
                node("Add", ["erf", "one"], "shifted"),
                node("Mul", ["conv", "shifted"], "product"),
                node("Mul", ["product", "half"], "features"),
            ),
            "gelu",
            "gelu_backward",
        ),
    ],
)
def test_activations_that_exporters_take_apart_are_put_together(nodes, forward, backward):
    scalars = tuple(whole_numbers(name, 1) for name in ("root2", "one", "half"))
    found = operations(read(network_of(*nodes, stored=scalars)))
    full = 8 * 32 * 32 * 4
    name = next(name for phase, name in found if name.rstrip("_") == forward)
    assert found[Phase.FORWARD, name].bytes_per_example == 2 * full
    assert (Phase.BACKWARD, backward) in found
    assert (Phase.FORWARD, "mul") not in found


def test_slices_that_cover_a_tensor_are_a_split():
    stored = tuple(whole_numbers(name, value) for name, value in (("c", 1), ("0", 0), ("4", 4)))
    nodes = (
        node("Slice", ["conv", "0", "4", "c"], "left"),
        node("Slice", ["conv", "4", "8", "c"], "right"),
        node("Concat", ["right", "left"], "features", axis=1),
    )
    found = operations(read(network_of(*nodes, stored=(*stored, whole_numbers("8", 8)))))
    assert found[Phase.BACKWARD, "cat"].bytes_per_example == 2 * 8 * 32 * 32 * 4
    assert (Phase.BACKWARD, "slice_backward") not in found


def test_a_linear_layer_on_every_pixel():
    nodes = (
        node("Transpose", ["conv"], "last", perm=[0, 2, 3, 1]),
        node("MatMul", ["last", "w"], "product"),
        node("Add", ["b", "product"], "linear"),
        node("Transpose", ["linear"], "features", perm=[0, 3, 1, 2]),
    )
    network = read(network_of(*nodes, stored=(weight("w", 8, 8), weight("b", 8))))
    found = operations(network)
    assert found[Phase.FORWARD, "addmm"].calls == 2
    assert network.multiply_adds == 216 * 1024 + 64 * 1024 + 80
    assert found[Phase.BACKWARD, "mm"].multiply_adds_per_example == 2 * (64 * 1024 + 80)


def test_batch_norm_on_one_value_needs_two_examples():
    nodes = (
        node("GlobalAveragePool", ["conv"], "one"),
        node("BatchNormalization", ["one", "s", "b", "m", "v"], "features"),
    )
    stored = tuple(weight(name, 8) for name in "sbmv")
    assert read(network_of(*nodes, stored=stored)).minimum_batch_size == 2


def test_equal_initial_values_that_an_exporter_merged_are_counted_apart():
    nodes = (
        node("BatchNormalization", ["conv", "ones", "zeros", "zeros", "ones"], "a"),
        node("BatchNormalization", ["a", "ones", "zeros", "zeros", "ones"], "features"),
    )
    network = read(network_of(*nodes, stored=(weight("ones", 8), weight("zeros", 8))))
    assert network.parameter_tensors == 1 + 4 + 2


def test_a_convolution_that_is_used_twice_is_one_parameter():
    nodes = (node("Conv", ["conv", "w"], "a"), node("Conv", ["a", "w"], "features"))
    network = read(network_of(*nodes, stored=(weight("w", 8, 8, 1, 1),)))
    assert network.parameters == 216 + 64 + 90
    assert [use.count for use in network.convolutions] == [1, 2]
    assert operations(network)[Phase.BACKWARD, "add"].bytes_fixed == 3 * 64 * 4


def test_supported_operators_are_names_of_onnx():
    import onnx

    known = {schema.name for schema in onnx.defs.get_all_schemas_with_history()}
    assert set(supported_operators()) - known == set()
    assert {"Conv", "BatchNormalization", "Gemm", "Shape", "Gather"} <= set(supported_operators())
