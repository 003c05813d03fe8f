"""The code that shells run for completion, and the candidates that they get. Importing this module registers our completion classes with
click.

Bash tells the line up to the cursor, because it breaks words at ":" and "=" and a host:port would come in pieces; candidates lose what
bash takes for earlier words. Zsh and fish run click's own scripts. No shell ever sees an error: then there is just nothing to complete.
"""

from __future__ import annotations

import contextlib
import io
import os
from typing import Any, Final

import click
from click.shell_completion import (
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

_OPEN: Final = "open"
"""Kind of a candidate that is continued, such as "key=": no blank may follow it."""

_BASH: Final = """\
%(complete_func)s() {
    local kind value
    COMPREPLY=()
    while IFS=, read -r kind value; do
        case $kind in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            open) compopt -o nospace; COMPREPLY+=("$value") ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORDBREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null)
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Quiet(ShellComplete):
    """Completes with existing names, and with nothing after an error."""

    def complete(self) -> str:
        # This process only answers one question, so it may teach click's types, instead of every parameter of every command.
        click.ParamType.shell_complete = _names  # type: ignore[method-assign, assignment]
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                return super().complete()
        except (Exception, SystemExit):
            return ""


def _names(_: object, ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem[str]]:
    """Return candidates for a parameter whose type (text, a number) has none of its own."""
    from kafkalite.cli.completion.words import kind_of, words_of

    kind = kind_of(ctx, parameter)
    if kind is None:
        return []
    several = parameter.multiple or parameter.nargs == -1
    given = {str(each) for each in ctx.params.get(parameter.name or "") or ()} if several else set()
    return [CompletionItem(each) for each in words_of(kind, ctx) if each.startswith(incomplete) and each not in given]


class BashCompletion(_Quiet):
    name = "bash"
    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)[1:]
        if line[-1:].isspace() or not words:
            return words, ""
        return words[:-1], words[-1]

    def format_completion(self, item: CompletionItem[Any]) -> str:
        kind = _OPEN if item.type == "plain" and item.value.endswith("=") else item.type
        return f"{kind},{_without_earlier_words(item.value, self.get_completion_args()[1])}"


def _without_earlier_words(value: str, incomplete: str) -> str:
    """Return the part of a candidate behind the last ":" or "=" typed so far, which is what bash takes for the current word."""
    breaks = os.environ.get("COMP_WORDBREAKS", ":=")
    typed = max([incomplete.rfind(each) for each in ":=" if each in breaks], default=-1) + 1
    return value[typed:] if value.startswith(incomplete[:typed]) else value


class ZshCompletion(_Quiet, ZshComplete):
    name = "zsh"


class FishCompletion(_Quiet, FishComplete):
    name = "fish"


for _each in (BashCompletion, ZshCompletion, FishCompletion):
    add_completion_class(_each)


def script_for(shell: str, cli: click.Command, program: str) -> str:
    """Return the code that a shell evaluates so that TAB completes `program`."""
    shells: dict[str, type[ShellComplete]] = {"bash": BashCompletion, "zsh": ZshCompletion, "fish": FishCompletion}
    return shells[shell](cli, {}, program, completion_variable(program)).source()


def completion_variable(program: str) -> str:
    """Return the environment variable by which click asks `program` for candidates."""
    return f"_{program.replace('-', '_').upper()}_COMPLETE"
