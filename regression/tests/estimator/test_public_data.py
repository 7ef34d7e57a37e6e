from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from benchmarking.specs import Phase, Precision
from regression.public_data.examples import build_examples, is_toy, same_network
from regression.public_data.layer_timings import read_conv3x3, read_deepbench, read_random_layers
from regression.public_data.networks import trace_slug, with_weight_penalty
from regression.public_data.step_times import NetworkKey, StepTiming, read_step_timings
from regression.step_calibration import Collection
from regression.tests.estimator.specimens import VOLTA, small_network

DEEPBENCH_HEAD = (
    "gpu,sheet,precision,layer_of,N,C,H,W,K,R,S,pad_h,pad_w,stride_h,stride_w,"
    "fwd_ms,bwd_data_ms,bwd_weights_ms\n"
)


def test_deepbench_takes_missing_kernels_from_the_v100_sheet(tmp_path: Path) -> None:
    path = tmp_path / "conv.csv"
    path.write_text(
        DEEPBENCH_HEAD
        + "V100,a,fp32,,16,64,56,56,64,3,3,1,1,1,1,1.0,2.0,3.0\n"
        + "P100,a,fp32,,16,64,56,56,64,,,1,1,1,1,4.0,,6.0\n"
    )
    timings = {(t.device, int(t.passes[0])): t for t in read_deepbench(path) if len(t.passes)}
    forward = timings["p100-pcie-16gb", 0]
    assert forward.layers.kernel_height.tolist() == [3.0]
    assert forward.layers.out_height.tolist() == [56.0]
    assert forward.milliseconds.tolist() == [4.0]
    assert ("p100-pcie-16gb", 1) not in timings
    assert timings["v100-sxm2-16gb", 2].milliseconds.tolist() == [3.0]


def test_deepbench_sheets_must_align(tmp_path: Path) -> None:
    row = "16,64,56,56,64,3,3,1,1,1,1,1.0,2.0,3.0\n"
    path = tmp_path / "conv.csv"
    path.write_text(DEEPBENCH_HEAD + f"V100,a,fp32,,{row}T4,a,fp32,,{row}T4,a,fp32,,{row}")
    with pytest.raises(ValueError, match="T4 fp32 has 2 rows"):
        read_deepbench(path)


RANDOM_HEAD = (
    "gpu_model,batchsize,matsize,kernelsize,channels_in,channels_out,strides,padding,"
    "optimizer_name,timeUsed_median\n"
)


def test_random_layers_are_forward_only_large_and_less_the_session_call(tmp_path: Path) -> None:
    names = ("1080TI", "K40", "K80", "M60", "P100", "QUADROP2000", "V100")
    for name in names:
        with gzip.open(tmp_path / f"{name}.csv.gz", "wt") as stream:
            stream.write(RANDOM_HEAD)
            stream.write("x,16,56,3,64,64,2,1,None(fwd only),1.15\n")
            stream.write("x,16,56,3,64,64,2,1,SGD,9.0\n")
            stream.write("x,1,2,1,1,1,1,0,None(fwd only),0.2\n")
    timings = read_random_layers(tmp_path, 10, np.random.default_rng(0))
    assert len(timings) == len(names)
    for each in timings:
        assert each.milliseconds.tolist() == [pytest.approx(1.0)]
        assert each.layers.out_height.tolist() == [28.0]


def test_conv3x3_is_grouped_by_device(tmp_path: Path) -> None:
    path = tmp_path / "layers.csv.gz"
    with gzip.open(path, "wt") as stream:
        stream.write(
            "device,forward_ms,batch_size,in_channels,out_channels,kernel,size,stride,padding\n"
            "t4,2.0,8,16,32,3,10,1,1\np4,5.0,8,16,32,3,10,1,1\n"
        )
    timings = read_conv3x3(path)
    assert [each.device for each in timings] == ["p4", "t4"]
    assert timings[1].layers.out_width.tolist() == [10.0]


@pytest.fixture
def step_folder(tmp_path: Path) -> Path:
    for name in ("profet", "torchvision_batch12", "timm_rtx3090_amp"):
        (tmp_path / name).mkdir()
    (tmp_path / "profet" / "step_times.csv").write_text(
        "rep,gpu,model,image_size,batch_size,step_ms\n"
        "1,T4,VGG11,64,16,10\n2,T4,VGG11,64,16,12\n3,T4,VGG11,64,16,11\n"
    )
    (tmp_path / "torchvision_batch12" / "train_step_times.csv").write_text(
        "gpu,n_gpus,precision,model,batch_per_gpu,image_size,median_ms,source\n"
        "A100-SXM4-40GB,1,fp32,resnet18,12,224,16,results/dgx/a.csv\n"
        "A100-SXM4-40GB,1,fp16(pure),resnet18,12,224,13,results/dgx/b.csv\n"
        "A100-SXM4-40GB,1,fp64,resnet18,12,224,99,results/dgx/c.csv\n"
        "A100-SXM4-40GB,2,fp32,resnet18,12,224,99,results/dgx/d.csv\n"
        "GeForce RTX 2080 Ti,1,fp32,resnet18,12,224,20,results/2080ti/e(1).csv\n"
        "GeForce RTX 2080 Ti,1,fp32,resnet18,12,224,20,new_results/f.csv\n"
    )
    (tmp_path / "timm_rtx3090_amp" / "pt112_nchw.csv").write_text(
        "model,train_step_time,train_batch_size,train_img_size\nresnet34,200,512,224\n"
    )
    return tmp_path


def test_iterations_of_three_publications(step_folder: Path) -> None:
    timings = read_step_timings(step_folder)
    assert [(t.device, t.precision.value, t.milliseconds) for t in timings] == [
        ("t4", "fp32", 11.0),
        ("a100-sxm4-40gb", "tf32", 16.0),
        ("a100-sxm4-40gb", "amp", 13.0),
        ("rtx-2080-ti", "fp32", 20.0),
        ("rtx-3090", "amp", 200.0),
    ]
    assert [t.stack for t in timings][3] == "torchvision-2080ti(1)"
    assert [t.has_optimizer for t in timings] == [True, False, False, False, True]
    assert [t.has_copy for t in timings] == [True, True, True, True, False]


def test_examples_join_timings_traces_and_devices() -> None:
    key = NetworkKey("timm", "tf_small_ns", 224)
    unknown = NetworkKey("timm", "unknown", 224)
    timings = [
        StepTiming(key, "volta", Precision.AMP, "timm", 8, 50.0, False, True),
        StepTiming(unknown, "volta", Precision.AMP, "timm", 8, 50.0, False, True),
    ]
    (example,) = build_examples(timings, {key: small_network()}, {"volta": VOLTA})
    assert example.network == "small"
    assert example.context.collection is Collection.TIMM
    assert example.context.chip == "7.0/80"
    assert example.work.has_casts
    assert example.weight == 1.0


def test_weights_of_one_network_are_left_out_together() -> None:
    assert same_network("tf_efficientnet_b2_ns") == same_network("efficientnet_b2")
    assert same_network("ssl_resnext101_32x16d") == same_network("ig_resnext101_32x16d")
    assert same_network("ResNet50") == same_network("resnet50")
    assert is_toy("cifar10cnn") and not is_toy("vgg11")


def test_a_weight_penalty_adds_operations_to_both_passes() -> None:
    plain = small_network(blocks=2)
    added = with_weight_penalty(plain).operations[len(plain.operations) :]
    forward = [each for each in added if each.phase is Phase.FORWARD]
    assert {each.name for each in forward} == {"pow", "sum", "mul", "add"}
    assert all(each.calls == 3 for each in forward)
    weights = 4 * (3 * 64 * 49 + 2 * 64 * 64 * 9)
    assert next(each for each in added if each.name == "sum").bytes_fixed == weights


def test_traces_are_named_by_collection() -> None:
    assert trace_slug(NetworkKey("keras", "ResNet50", 64)) == "keras-resnet50"
