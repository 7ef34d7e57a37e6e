"""From a network to its convolution layers and operations, without data and without a GPU.

Nothing here imports torch at the top: :mod:`.assembly`, :mod:`.fixture`, :mod:`.errors` and
:mod:`.source` work where torch is not installed; :mod:`.tracer`, :mod:`.recorder`,
:mod:`.kept_bytes`, :mod:`.sweep` and :mod:`.torchvision_source` need it.
"""
