"""How bodies of requests are read."""

from __future__ import annotations

from typing import Any

from rest_framework.exceptions import ParseError
from rest_framework.parsers import JSONParser


class BoundedJsonParser(JSONParser):
    """JSON whose depth Python's parser can follow; deeper is the sender's fault, not ours."""

    def parse(self, *args: Any, **kwargs: Any) -> Any:
        """The body; raises ``ParseError``."""
        try:
            return super().parse(*args, **kwargs)
        except RecursionError:
            raise ParseError("JSON parse error - it is nested too deeply.") from None
