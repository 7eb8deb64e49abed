"""`kshadow completion`: the script that completes commands and groups in a shell."""

from __future__ import annotations

import click

from agent.cli.output import echo


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands and groups in a shell.

    It completes commands, options and their choices, analyzers, contexts, and the groups of the source that stands on
    the line, or else in the environment or the context in use. An agent is waited for a second at most; what it
    names is kept for a minute.

    \b
    To install it:
      bash: source <(kshadow completion bash), in ~/.bashrc
      zsh: source <(kshadow completion zsh), in ~/.zshrc behind compinit
      fish: kshadow completion fish | source, in ~/.config/fish/config.fish

    \b
    Example:
      kshadow completion bash
    """
    from agent.cli.shells import SHELLS, VARIABLE

    # By the name that it is called by, whatever that was just now.
    echo(SHELLS[shell](ctx.find_root().command, {}, "kshadow", VARIABLE).source(), nl=False)
