"""What is wrong with settings."""

from __future__ import annotations


class InvalidValue(ValueError):
    """A text that a setting does not take; the message names key, value and, in Kafka's words, what would be taken."""

    def __init__(self, key: str, value: object, remedy: str) -> None:
        super().__init__(f"Invalid value {value} for configuration {key}: {remedy}")
        self.key = key


class ConfigError(Exception):
    """Settings with which a broker cannot start; the message names key, value and remedy of each problem."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems
