"""The form for a network of one's own."""

from __future__ import annotations

from django import forms

from predictions.query import MAX_IMAGE_SIZE

_SIZE_SENTENCE = f"The image size must be a whole number from 1 to {MAX_IMAGE_SIZE:,} pixels."


class UploadForm(forms.Form):
    """One file, and the image size for graphs that leave it open."""

    file = forms.FileField(
        label="ONNX file or traced JSON",
        max_length=400,
        error_messages={
            "required": "Choose a file: an .onnx file, or the JSON that the tracer writes.",
            "invalid": "Choose a file: an .onnx file, or the JSON that the tracer writes.",
            "missing": "Choose a file: an .onnx file, or the JSON that the tracer writes.",
            "empty": "The file is empty.",
            "max_length": "The name of the file is too long: at most 400 characters.",
        },
    )
    image_size = forms.IntegerField(
        label="Image size in pixels, only where the file leaves it open",
        required=False,
        min_value=1,
        max_value=MAX_IMAGE_SIZE,
        widget=forms.TextInput(attrs={"inputmode": "numeric", "autocomplete": "off"}),
        error_messages={
            "invalid": _SIZE_SENTENCE,
            "min_value": _SIZE_SENTENCE,
            "max_value": _SIZE_SENTENCE,
        },
    )
