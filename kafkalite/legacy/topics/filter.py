"""Topic filters: regular expressions of Java, with a comma for "or"."""

from __future__ import annotations

import re

from kafkalite.legacy.command_line.failures import ToolError
from kafkalite.types import INTERNAL_TOPICS


class TopicFilter:
    """Matches topics by an expression. Raises ToolError for an invalid one."""

    def __init__(self, expression: str) -> None:
        self.expression = expression.strip().replace(",", "|").replace(" ", "").strip("\"'")
        try:
            self._pattern = re.compile(self.expression)
        except re.error:
            raise ToolError(f"{self.expression} is an invalid regex.", "java.lang.RuntimeException") from None

    def allows(self, topic: str, *, exclude_internal: bool) -> bool:
        return bool(self._pattern.fullmatch(topic)) and not (exclude_internal and topic in INTERNAL_TOPICS)
