"""A network of one's own, from an ONNX graph or a traced JSON file, without torch.

:func:`.reader.read_onnx` derives a training iteration from a graph,
:func:`.trace_json.read_trace_json` checks a file that ``python -m benchmarking.tracing`` wrote,
and :func:`.untrusted.read_untrusted` does either in a process of its own with limits. Wrong input
is one :class:`.errors.UploadError`.
"""
