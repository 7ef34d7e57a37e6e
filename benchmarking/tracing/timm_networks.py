"""timm's CNNs, named as in its published benchmark of training times, as torch modules.

They exist only to be traced for the calibration of the estimator; timm is needed for that alone.
"""

from __future__ import annotations

import re

from torch import nn

_RENAMED: dict[str, str] = {
    "densenet121d": "densenet121",
    "efficientnet_b3a": "efficientnet_b3",
    "gluon_resnet101_v1b": "resnet101",
    "gluon_resnet101_v1d": "resnet101d",
    "gluon_resnext101_64x4d": "resnext101_64x4d",
    "gluon_senet154": "senet154",
    "gluon_xception65": "xception65",
    "mnasnet_a1": "semnasnet_100",
    "mobilenetv3_large_100_miil": "mobilenetv3_large_100",
    "swsl_resnext101_32x4d": "resnext101_32x4d",
    "ig_resnext101_32x16d": "resnext101_32x16d",
    "ssl_resnext101_32x16d": "resnext101_32x16d",
    "tf_efficientnet_b2_ns": "tf_efficientnet_b2",
    "tf_efficientnet_b3_ap": "tf_efficientnet_b3",
    "tf_efficientnet_b6_ns": "tf_efficientnet_b6",
    "tf_efficientnet_b7_ns": "tf_efficientnet_b7",
    "tf_efficientnetv2_s_in21ft1k": "tf_efficientnetv2_s",
    "tv_resnet34": "resnet34",
    "tv_resnet101": "resnet101",
    "xception": "legacy_xception",
    "convnext_tiny_384_in22ft1k": "convnext_tiny",
    "convnext_xlarge_in22ft1k": "convnext_xlarge",
    "convnext_xlarge_384_in22ft1k": "convnext_xlarge",
    "ens_adv_inception_resnet_v2": "inception_resnet_v2",
}

_FAMILIES: tuple[tuple[str, str], ...] = (
    (r"(legacy_)?(se)?resnext|ig_|ssl_|swsl_|gluon_resnext", "resnext"),
    (r"resnetv2", "resnetv2"),
    (
        r"(tv_|gluon_|legacy_|ese?ca|eca)?(se)?(sk)?resnet(?!v2)|ecaresnet|resnest|seresnet",
        "resnet",
    ),
    (r"wide_resnet", "resnet"),
    (r"vgg|repvgg", "vgg"),
    (r"densenet", "densenet"),
    (r"(tf_)?efficientnetv2", "efficientnetv2"),
    (r"(tf_)?efficientnet", "efficientnet"),
    (r"(tf_)?mobilenetv3|hardcorenas|fbnet|lcnet|tinynet", "mobilenetv3"),
    (r"mobilenetv2|(se)?mnasnet|rexnet|ghostnet", "mobilenet"),
    (r"regnet", "regnet"),
    (r"convnext", "convnext"),
    (r"(cs3|csp|sedark|dark)", "darknet"),
    (r"dla|hrnet|selecsls|ese_vovnet|vovnet|gernet|res2n|senet|gluon_senet|legacy_senet", "other"),
    (r"inception|ens_adv|xception|gluon_xception", "inception"),
    (r"nfnet|dm_nfnet|nf_|eca_nfnet", "other"),
)
_NOT_COVERED = re.compile(
    r"_iabn|_evos|_frn|botnet|halonet|sebotnet|lambda|vit|xcit|_gn$|_g8_gn|_cc_|mix|dpn|nasnet|tresnet"
)


def family_of(name: str) -> str | None:
    """Family of a network of timm's benchmark, or ``None`` when it is not covered here."""
    if _NOT_COVERED.search(name):
        return None
    for pattern, family in _FAMILIES:
        if re.match(pattern, name):
            return family
    return None


def build_timm_network(name: str) -> nn.Module:
    """The network by its benchmark name; raises ``ValueError`` if timm no longer has it."""
    import timm

    current = _RENAMED.get(name, name)
    if not timm.is_model(current):
        raise ValueError(f"timm {timm.__version__} has no {current}")
    network: nn.Module = timm.create_model(current)
    return network
