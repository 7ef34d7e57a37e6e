"""What can be wrong with an uploaded network: one sentence for people, one code for programs."""

from __future__ import annotations

MEBIBYTE = 2**20
LARGEST_FILE_BYTES = 64 * MEBIBYTE


class UploadError(ValueError):
    """An uploaded file cannot be used; ``code`` names the reason in snake case."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class OnnxError(UploadError):
    """An ONNX graph cannot be read or is not covered."""
