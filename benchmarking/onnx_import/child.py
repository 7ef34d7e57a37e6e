"""The process that :mod:`.untrusted` starts: reads one file and prints one JSON object.

``python -m benchmarking.onnx_import.child KIND PATH SLUG IMAGE_SIZE SECONDS MIB``
"""

from __future__ import annotations

import json
import math
import resource
import sys
from pathlib import Path

from benchmarking.onnx_import.errors import MEBIBYTE, UploadError
from benchmarking.tracing.fixture import format_traced_networks


def main(arguments: list[str]) -> int:
    """Print ``{"network": ...}`` and return 0, or ``{"code", "message"}`` and return 2."""
    kind, path, slug, image_size, seconds, mebibytes = arguments
    limit_resources(float(seconds), int(mebibytes))
    try:
        # Imported under the limits: the parser belongs to what is not trusted.
        if kind == "onnx":
            from benchmarking.onnx_import.reader import read_onnx

            network = read_onnx(Path(path), slug=slug, image_size=int(image_size) or None)
        else:
            from benchmarking.onnx_import.trace_json import LARGEST_JSON_BYTES, read_trace_json

            with Path(path).open("rb") as file:
                network = read_trace_json(file.read(LARGEST_JSON_BYTES + 1))
        answer = {"network": format_traced_networks([network], source="upload")}
    except UploadError as error:
        answer = {"kind": kind, "code": error.code, "message": str(error)}
    except MemoryError:
        answer = {
            "kind": kind,
            "code": "too_much_memory",
            "message": f"Reading the file needs more than {mebibytes} MiB of memory; "
            "upload a smaller network.",
        }
    except OSError as error:
        answer = {
            "kind": kind,
            "code": "unreadable",
            "message": f"The file cannot be read: {error.strerror or error}.",
        }
    json.dump(answer, sys.stdout)
    return 0 if "network" in answer else 2


def limit_resources(seconds: float, mebibytes: int) -> None:
    """Bound the processor time, address space, written bytes and core dumps of this process."""
    processor = max(1, math.ceil(seconds))
    resource.setrlimit(resource.RLIMIT_CPU, (processor, processor + 1))
    resource.setrlimit(resource.RLIMIT_AS, (mebibytes * MEBIBYTE, mebibytes * MEBIBYTE))
    resource.setrlimit(resource.RLIMIT_FSIZE, (32 * MEBIBYTE, 32 * MEBIBYTE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
