"""The configuration file of a DNNMark run, with keys that each version of DNNMark knows.

An unknown key ends DNNMark. ``propagation`` is never written: the programs for several batch sizes
rewrite every ``n=...`` in the file, and would make ``propagatio64`` of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

FORK = "fork"
UPSTREAM = "upstream"

# What cuDNN's heuristics choose, as PyTorch does with its benchmark mode off, and what cudnnFind
# measures to be the fastest. Without these lines the fork takes algorithms that nobody chose.
HEURISTICS = "cudnnv7"
SEARCH = "auto"

_SHAPES = (("kernel_size", "kernel"), ("pad", "padding"), ("stride", "stride"))


class ConfigError(ValueError):
    """DNNMark cannot time this; the message says why."""


def unsupported_reason(layer: Mapping[str, int]) -> str:
    """Why DNNMark cannot time a layer (sizes by name as in ``ConvolutionSpec``), or nothing."""
    if layer["groups"] != 1:
        return "DNNMark times no grouped convolutions"
    if layer["dilation_height"] != 1 or layer["dilation_width"] != 1:
        return "DNNMark times no dilated convolutions"
    return ""


def config_text(
    layer: Mapping[str, int],
    batch_sizes: Sequence[int],
    flavour: str = FORK,
    *,
    find_fastest: bool = False,
) -> str:
    """The configuration of one convolution layer.

    Parameters
    ----------
    layer
        Sizes by name as in ``ConvolutionSpec``; a bias is left out, DNNMark has none.
    batch_sizes
        The fork takes several, upstream takes one.
    flavour
        ``fork`` or ``upstream``.
    find_fastest
        Let the fork search for the fastest algorithms instead of asking cuDNN's heuristics.

    Raises
    ------
    ConfigError
        For a grouped or dilated layer, and for a number of batch sizes that is not possible.
    """
    reason = unsupported_reason(layer)
    if reason:
        raise ConfigError(reason)
    if not batch_sizes or (flavour == UPSTREAM and len(batch_sizes) > 1):
        raise ConfigError(f"{len(batch_sizes)} batch sizes do not go into one file for {flavour}")
    lines = [
        "[DNNMark]",
        "run_mode=standalone",
        "",
        "[Convolution]",
        "name=conv1",
        "n=" + ",".join(str(size) for size in batch_sizes),
        f"c={layer['in_channels']}",
        f"h={layer['in_height']}",
        f"w={layer['in_width']}",
        "previous_layer=null",
        "conv_mode=cross_correlation",
        f"num_output={layer['out_channels']}",
    ]
    for keyword, name in _SHAPES:
        height, width = layer[name + "_height"], layer[name + "_width"]
        if height == width:
            lines.append(f"{keyword}={height}")
        else:
            lines += [f"{keyword}_h={height}", f"{keyword}_w={width}"]
    if flavour == FORK:
        algorithm = SEARCH if find_fastest else HEURISTICS
        lines += [f"{keyword}={algorithm}" for keyword in ("algofwd", "algo", "algod")]
    else:
        preferences = ("conv_fwd_pref", "conv_bwd_filter_pref", "conv_bwd_data_pref")
        lines += [f"{keyword}=fastest" for keyword in preferences]
    return "\n".join(lines) + "\n"
