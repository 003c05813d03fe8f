"""The command lines of Kafka's tools, read as joptsimple, which these tools use, reads them.

`--option value`, `--option=value` and `-option value` are the same; options are not abbreviated; `--` ends them; what is no option is
collected and ignored by the tools. Values are converted when they are asked for, so that a wrong number is an error of the action that
needs it, and an option that was given twice is an error only where one value is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Final, NamedTuple

from kafkalite.legacy.command_line.failures import ToolError, UsageError


class Argument(Enum):
    """Whether an option takes a value."""

    NONE = 0
    REQUIRED = 1
    OPTIONAL = 2


class Option(NamedTuple):
    """One option. `convert` raises ValueError for a text that it cannot read, `separator` splits one text into several values."""

    name: str
    argument: Argument = Argument.NONE
    convert: Callable[[str], Any] = str
    default: Any = None
    separator: str | None = None

    def __str__(self) -> str:
        return f"[{self.name}]"


def flag(name: str) -> Option:
    return Option(name)


def text(name: str, default: str | None = None) -> Option:
    return Option(name, Argument.REQUIRED, str, default)


def integer(name: str, default: int | None = None, *, bits: int = 32) -> Option:
    """Return an option with a number of Java's type `int`, or of `long` with 64 bits."""
    return Option(name, Argument.REQUIRED, java_integer(bits), default)


def long(name: str, default: int | None = None) -> Option:
    return integer(name, default, bits=64)


def java_integer(bits: int) -> Callable[[str], int]:
    """Return a converter that accepts what Java's parsers of whole numbers accept."""
    limit = 1 << (bits - 1)

    def convert(value: str) -> int:
        digits = value[1:] if value[:1] in ("+", "-") else value
        number = int(value) if digits.isascii() and digits.isdigit() else limit
        if not -limit <= number < limit:
            raise ValueError(f"{value!r} is no number of {bits} bits")
        return number

    return convert


ZOOKEEPER_DEPRECATED: Final = (
    "Warning: --zookeeper is deprecated and will be removed in a future version of Kafka.\n"
    "Use --bootstrap-server instead to specify a broker to connect to."
)
HELP: Final = flag("help")
VERSION: Final = flag("version")


def declared_options(names: Mapping[str, object]) -> tuple[Option, ...]:
    """Return the options among the names of a module so far, which are `vars()` at its top level."""
    return tuple(each for each in names.values() if isinstance(each, Option))


class Options:
    """The options of one command line."""

    def __init__(self, tool: str, declared: Sequence[Option], arguments: Sequence[str]) -> None:
        self.tool, self.count = tool, len(arguments)
        self._declared = {each.name: each for each in (*declared, HELP, VERSION)}
        self._values: dict[str, list[str]] = {}
        self.order: list[str] = []
        """Names of options in their order on the command line, with repetitions."""
        self.others: list[str] = []
        self._read(list(arguments))

    @classmethod
    def read_or_refuse(cls, tool: str, declared: Sequence[Option], arguments: Sequence[str]) -> Options:
        """Return the options, or end the tool with the table of options when the command line cannot be read."""
        try:
            return cls(tool, declared, arguments)
        except UsageError as problem:
            cls(tool, declared, []).refuse(problem.message or "")
            raise

    def _read(self, arguments: list[str]) -> None:
        position = 0
        while position < len(arguments):
            token = arguments[position]
            position += 1
            if token == "--":
                self.others += arguments[position:]
                return
            if not looks_like_an_option(token):
                self.others.append(token)
                continue
            name, equals, value = token.lstrip("-").partition("=")
            option = self._declared.get(name)
            if option is None:
                raise UsageError(_unknown(token, name), "joptsimple.UnrecognizedOptionException")
            given = self._values.setdefault(name, [])
            self.order.append(name)
            if option.argument is Argument.NONE:
                continue
            if equals:
                given.append(value)
            elif position < len(arguments) and self._takes(option, arguments[position]):
                given.append(arguments[position])
                position += 1
            elif option.argument is Argument.REQUIRED:
                raise UsageError(
                    f"Option {name} requires an argument", "joptsimple.OptionMissingRequiredArgumentException"
                )

    @staticmethod
    def _takes(option: Option, token: str) -> bool:
        return option.argument is Argument.REQUIRED or not looks_like_an_option(token)

    def has(self, option: Option) -> bool:
        return option.name in self._values

    def has_any(self, *options: Option) -> bool:
        return any(each.name in self._values for each in options)

    def has_value(self, option: Option) -> bool:
        return bool(self._values.get(option.name))

    def values(self, option: Option) -> list[Any]:
        """Return all values of an option, or its default, if it has one, when none was given."""
        given = self._values.get(option.name)
        if not given:
            return [] if option.default is None else [option.default]
        parts = [part for each in given for part in (each.split(option.separator) if option.separator else [each])]
        return [self._convert_text(option, each) for each in parts]

    def value(self, option: Option) -> Any:
        """Return the value of an option, its default, or None. Raises ToolError when several values were given."""
        found = self.values(option)
        if len(found) > 1:
            raise ToolError(
                f"Found multiple arguments for option {option.name}, but you asked for only one",
                "joptsimple.MultipleArgumentsForOptionException",
            )
        return found[0] if found else None

    def value_of_either(self, first: Option, second: Option) -> Any:
        """Return the value of `first` where it was given, else that of `second`."""
        return self.value(first if self.has(first) else second)

    @staticmethod
    def _convert_text(option: Option, value: str) -> Any:
        try:
            return option.convert(value)
        except ValueError:
            raise ToolError(
                f"Cannot parse argument '{value}' of option {option.name}",
                "joptsimple.OptionArgumentConversionException",
            ) from None

    # checks that the tools share

    @property
    def asks_for_help(self) -> bool:
        """True if --help or --version was given. joptsimple then requires no other options."""
        return self.has(HELP) or self.has(VERSION)

    def print_help_or_version(self, headline: str) -> None:
        """End the tool with its help when --help or nothing was given, and with the version when --version was given."""
        if not self.count or self.has(HELP):
            self.refuse(headline)
        if self.has(VERSION):
            self.print_version()

    def print_version(self) -> None:
        from kafkalite.legacy import KAFKA_VERSION

        print(KAFKA_VERSION)
        raise SystemExit(0)

    def refuse(self, message: str) -> None:
        """End the tool with a message and the table of options."""
        from kafkalite.legacy.command_line.help_texts import print_usage

        print_usage(message, self.tool, {name: each.default for name, each in self._declared.items()})
        raise SystemExit(1)

    def require(self, *options: Option) -> None:
        for each in options:
            if not self.has(each):
                self.refuse(f'Missing required argument "{each}"')

    def forbid_with(self, used: Option, others: Iterable[Option]) -> None:
        """End the tool when `used` and one of `others` were given together."""
        for each in others if self.has(used) else ():
            if self.has(each):
                self.refuse(f'Option "{used}" can\'t be used with option "{each}"')


def looks_like_an_option(token: str) -> bool:
    return token.startswith("-") and token != "-"


def _unknown(token: str, name: str) -> str:
    """Return joptsimple's message. It reads an unknown word behind one dash as a cluster of short options, and names the first."""
    return f"{name if token.startswith('--') else name[:1]} is not a recognized option"
