"""The Keras CNNs that PROFET timed, as torch modules of the same layers.

They exist only to be traced for the calibration of the estimator. Their differences from
torchvision's networks of the same name matter: the ResNets are pre-activation, AlexNet's first
convolution has stride 1, and the classifiers of VGG and AlexNet grow with the image.
TensorFlow's ``same`` padding is asymmetric under stride; symmetric padding of the same output
size stands in for it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

KERAS_FAMILIES: dict[str, str] = {
    "LeNet5": "small",
    "MNIST_CNN": "small",
    "CIFAR10_CNN": "small",
    "ResNetSmall": "resnet",
    "ResNet18": "resnet",
    "ResNet50": "resnet",
    "VGG11": "vgg",
    "VGG13": "vgg",
    "VGG19": "vgg",
    "AlexNet": "alexnet",
    "MobileNetV2": "mobilenet",
    "InceptionResNetV2": "inception",
}

_VGG_STAGES: dict[str, tuple[int, ...]] = {
    "VGG11": (1, 1, 2, 2, 2),
    "VGG13": (2, 2, 2, 2, 2),
    "VGG19": (2, 2, 4, 4, 4),
}
_RESNET_STAGES: dict[str, tuple[tuple[int, ...], bool]] = {
    "ResNet18": ((2, 2, 2, 2), False),
    "ResNet50": ((3, 4, 6, 3), True),
}


def class_count(image_size: int) -> int:
    """Classes of PROFET's synthetic data set of this image size in pixels."""
    if image_size <= 32:
        return 10
    return 100 if image_size <= 128 else 1000


def build_keras_network(name: str, image_size: int) -> nn.Module:
    """The network as PROFET built it for an image size; raises ``ValueError`` on another name."""
    classes = class_count(image_size)
    if name in _VGG_STAGES:
        return _vgg(_VGG_STAGES[name], image_size, classes)
    if name in _RESNET_STAGES:
        stages, bottleneck = _RESNET_STAGES[name]
        return _PreActivationResNet(stages, bottleneck, classes)
    builders: dict[str, Callable[[int, int], nn.Module]] = {
        "LeNet5": _lenet5,
        "MNIST_CNN": _mnist_cnn,
        "CIFAR10_CNN": _cifar10_cnn,
        "ResNetSmall": lambda size, outputs: _ResNetSmall(outputs),
        "AlexNet": _alexnet,
        "MobileNetV2": _mobilenet_v2,
        "InceptionResNetV2": _inception_resnet_v2,
    }
    if name not in builders:
        raise ValueError(f"{name!r} is none of PROFET's networks: {', '.join(KERAS_FAMILIES)}")
    return builders[name](image_size, classes)


def _classified(
    features: list[nn.Module], hidden: list[list[nn.Module]], image_size: int, outputs: list[int]
) -> nn.Sequential:
    """Features, then dense layers whose first width follows from the image size."""
    body = nn.Sequential(*features, nn.Flatten()).to("meta")
    width = body(torch.empty(2, 3, image_size, image_size, device="meta")).shape[1]
    layers: list[nn.Module] = [body]
    for position, size in enumerate(outputs):
        layers.append(nn.Linear(width, size))
        layers.extend(hidden[position])
        width = size
    return nn.Sequential(*layers)


def _conv_relu(inputs: int, outputs: int, kernel: int, padding: int) -> list[nn.Module]:
    return [nn.Conv2d(inputs, outputs, kernel, padding=padding), nn.ReLU()]


def _lenet5(image_size: int, classes: int) -> nn.Module:
    features = [*_conv_relu(3, 6, 5, 0), nn.MaxPool2d(2), *_conv_relu(6, 16, 5, 0), nn.MaxPool2d(2)]
    return _classified(features, [[nn.ReLU()], [nn.ReLU()], []], image_size, [120, 84, classes])


def _mnist_cnn(image_size: int, classes: int) -> nn.Module:
    features = [
        *_conv_relu(3, 32, 3, 0),
        nn.MaxPool2d(2),
        *_conv_relu(32, 64, 3, 0),
        nn.MaxPool2d(2),
        nn.Dropout(0.5),
    ]
    return _classified(features, [[]], image_size, [classes])


def _cifar10_cnn(image_size: int, classes: int) -> nn.Module:
    features = [
        *_conv_relu(3, 32, 3, 1),
        *_conv_relu(32, 32, 3, 0),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        *_conv_relu(32, 64, 3, 1),
        *_conv_relu(64, 64, 3, 0),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
    ]
    hidden: list[list[nn.Module]] = [[nn.ReLU(), nn.Dropout(0.5)], []]
    return _classified(features, hidden, image_size, [512, classes])


def _vgg(stages: tuple[int, ...], image_size: int, classes: int) -> nn.Module:
    features: list[nn.Module] = []
    channels = 3
    for width, repeats in zip((64, 128, 256, 512, 512), stages, strict=True):
        for _ in range(repeats):
            features += _conv_relu(channels, width, 3, 1)
            channels = width
        features.append(nn.MaxPool2d(2))
    return _classified(features, [[nn.ReLU()], [nn.ReLU()], []], image_size, [4096, 4096, classes])


def _alexnet(image_size: int, classes: int) -> nn.Module:
    def block(inputs: int, outputs: int, kernel: int, padding: int, pool: bool) -> list[nn.Module]:
        layers: list[nn.Module] = [
            nn.Conv2d(inputs, outputs, kernel, padding=padding),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        ]
        return [*layers, nn.MaxPool2d(2)] if pool else layers

    features = [
        *block(3, 96, 11, 5, True),
        *block(96, 256, 5, 2, True),
        nn.ZeroPad2d(1),
        *block(256, 512, 3, 1, True),
        nn.ZeroPad2d(1),
        *block(512, 1024, 3, 1, False),
        nn.ZeroPad2d(1),
        *block(1024, 1024, 3, 1, True),
    ]
    hidden: list[list[nn.Module]] = [
        [nn.BatchNorm1d(3072), nn.ReLU(), nn.Dropout(0.5)],
        [nn.BatchNorm1d(4096), nn.ReLU(), nn.Dropout(0.5)],
        [nn.BatchNorm1d(classes)],
    ]
    return _classified(features, hidden, image_size, [3072, 4096, classes])


def _mobilenet_v2(image_size: int, classes: int) -> nn.Module:
    from torchvision.models import mobilenet_v2

    network: nn.Module = mobilenet_v2(num_classes=classes)
    return network


def _inception_resnet_v2(image_size: int, classes: int) -> nn.Module:
    import timm

    network: nn.Module = timm.create_model("inception_resnet_v2", num_classes=classes)
    return network


class _SmallBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs)
            )
        self.residual = nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 1),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.shortcut(inputs) + self.residual(inputs))


class _ResNetSmall(nn.Sequential):
    def __init__(self, classes: int) -> None:
        super().__init__(
            nn.Conv2d(3, 64, 7, 2, 3),
            nn.ReLU(),
            nn.BatchNorm2d(64),
            nn.MaxPool2d(3, 2, 1),
            _SmallBlock(64, 64, 2),
            _SmallBlock(64, 64, 1),
            _SmallBlock(64, 128, 2),
            _SmallBlock(128, 128, 1),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(128, classes),
        )


class _PreActivationBlock(nn.Module):
    """Normalise and activate before each convolution; the very first block skips its own."""

    def __init__(self, inputs: int, width: int, stride: int, bottleneck: bool, first: bool) -> None:
        super().__init__()
        outputs = width * 4 if bottleneck else width
        shapes = (
            [(inputs, width, 1, stride), (width, width, 3, 1), (width, outputs, 1, 1)]
            if bottleneck
            else [(inputs, width, 3, stride), (width, outputs, 3, 1)]
        )
        layers: list[nn.Module] = []
        for position, (fan_in, fan_out, kernel, step) in enumerate(shapes):
            if not (first and position == 0):
                layers += [nn.BatchNorm2d(fan_in), nn.ReLU()]
            layers.append(nn.Conv2d(fan_in, fan_out, kernel, step, kernel // 2))
        self.residual = nn.Sequential(*layers)
        self.shortcut: nn.Module = nn.Identity()
        if stride > 1 or inputs != outputs:
            self.shortcut = nn.Conv2d(inputs, outputs, 1, stride)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.shortcut(inputs) + self.residual(inputs)
        return result


class _PreActivationResNet(nn.Sequential):
    def __init__(self, stages: tuple[int, ...], bottleneck: bool, classes: int) -> None:
        layers: list[nn.Module] = [
            nn.Conv2d(3, 64, 7, 2, 3),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(3, 2, 1),
        ]
        channels = 64
        for stage, repeats in enumerate(stages):
            width = 64 * 2**stage
            for repeat in range(repeats):
                stride = 2 if repeat == 0 and stage > 0 else 1
                first = stage == 0 and repeat == 0
                layers.append(_PreActivationBlock(channels, width, stride, bottleneck, first))
                channels = width * 4 if bottleneck else width
        super().__init__(
            *layers,
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(channels, classes),
        )
