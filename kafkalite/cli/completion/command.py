"""`kafkalite completion bash|zsh|fish`: print the shell code that completes commands, options, and names in the cluster."""

from __future__ import annotations

import click

from kafkalite import NAME
from kafkalite.cli.output import flush, write_line


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes TAB complete commands, options, topics, groups, brokers and contexts.

    \b
    bash   echo 'eval "$(kafkalite completion bash)"' >> ~/.bashrc
    zsh    echo 'eval "$(kafkalite completion zsh)"' >> ~/.zshrc      (behind compinit)
    fish   kafkalite completion fish > ~/.config/fish/completions/kafkalite.fish

    Names are those of the cluster that the command would call. A cluster that does not answer at once has none:
    KAFKALITE_COMPLETION_BUDGET_MS (300) bounds the wait.
    """
    from kafkalite.cli.completion.shells import script_for

    write_line(script_for(shell, ctx.find_root().command, NAME).rstrip("\n"))
    flush()
