"""Checked reading of the values of one result line."""

from __future__ import annotations

import math
import re
from enum import StrEnum
from typing import Any, TypeVar

MAXIMUM_SAMPLES = 10_000
MAXIMUM_SAMPLE_MS = 86_400_000.0

_SLUG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,79}")
# Texts that PostgreSQL cannot store: a NUL character, half of a surrogate pair.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_SHOWN_CHARACTERS = 40

_Choice = TypeVar("_Choice", bound=StrEnum)


class ResultError(ValueError):
    """A line that no probe of this schema prints; the message names the line and the reason."""

    def __init__(self, line_number: int, reason: str) -> None:
        super().__init__(f"line {line_number}: {reason}")
        self.line_number = line_number
        self.reason = reason


class CheckedFields:
    """The values of one JSON object by name, each checked as it is read.

    Every method raises ``ResultError`` with the line's number where the value is not allowed.
    """

    def __init__(self, values: dict[str, Any], number: int) -> None:
        self.values = values
        self.number = number

    def refuse(self, reason: str) -> ResultError:
        """The error to raise for this line."""
        return ResultError(self.number, reason)

    def text(self, name: str, maximum: int, *, required: bool = True) -> str:
        """A text that can be stored; empty where it may be missing and is."""
        value = self.values.get(name)
        if value is None and not required:
            return ""
        if not isinstance(value, str) or len(value) > maximum:
            raise self.refuse(f"{name} must be a text of at most {maximum} characters")
        self.check_storable(name, value)
        return value

    def check_storable(self, name: str, value: Any) -> None:
        """Refuse what a JSON column of PostgreSQL cannot hold, at any depth of ``value``."""
        if isinstance(value, dict):
            for key, item in value.items():
                self.check_storable(name, key)
                self.check_storable(name, item)
        elif isinstance(value, list):
            for item in value:
                self.check_storable(name, item)
        elif isinstance(value, str) and _UNSTORABLE.search(value):
            raise self.refuse(f"{name} holds a character that no text can have")
        elif isinstance(value, float) and not math.isfinite(value):
            raise self.refuse(f"{name} holds a number that is not finite")

    def slug(self, name: str) -> str:
        """The name of a network."""
        value = self.text(name, 80)
        if not _SLUG.fullmatch(value):
            raise self.refuse(f"{name} is {shown(value)}, which is no name of a network")
        return value

    def integer(self, name: str, low: int, high: int) -> int:
        """A whole number within bounds, both included."""
        value = self.values.get(name)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise self.refuse(
                f"{name} is {shown(value)}; allowed are whole numbers from {low} to {high}"
            )
        return value

    def boolean(self, name: str) -> bool:
        """True or false, and not 1 or 0."""
        value = self.values.get(name)
        if not isinstance(value, bool):
            raise self.refuse(f"{name} is {shown(value)}; allowed are true and false")
        return value

    def choice(self, name: str, choices: type[_Choice]) -> _Choice:
        """A member of an enumeration by its value."""
        value = self.values.get(name)
        try:
            return choices(str(value))
        except ValueError:
            allowed = ", ".join(choices)
            raise self.refuse(f"{name} is {shown(value)}; allowed are {allowed}") from None

    def nested(self, name: str) -> CheckedFields:
        """The values of an object within this one."""
        value = self.values.get(name)
        if not isinstance(value, dict):
            raise self.refuse(f"{name} must be an object")
        return CheckedFields(value, self.number)

    def samples(self, name: str) -> tuple[float, ...]:
        """The samples under ``name``, in milliseconds."""
        return self.checked_samples(name, self.values.get(name))

    def checked_samples(self, name: str, values: Any) -> tuple[float, ...]:
        """``values`` as samples in milliseconds, each above 0 and at most a day."""
        if not isinstance(values, list) or not 1 <= len(values) <= MAXIMUM_SAMPLES:
            raise self.refuse(f"{name} must be a list of 1 to {MAXIMUM_SAMPLES} samples")
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise self.refuse(f"{name} holds {shown(value)}, which is no number")
            if not 0 < value <= MAXIMUM_SAMPLE_MS or not math.isfinite(value):
                raise self.refuse(
                    f"{name} holds {shown(value)}; "
                    f"a sample is above 0 and at most {MAXIMUM_SAMPLE_MS:.0f} ms"
                )
        return tuple(float(value) for value in values)


def without_unstorable(text: str) -> str:
    """``text`` less the characters that no column can hold."""
    return _UNSTORABLE.sub("", text)


def shown(value: Any) -> str:
    """A value as a message shows it, cut where it is long."""
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
