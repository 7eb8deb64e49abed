"""The shells that complete: click's, and our own words for bash.

Bash parts the line it hands out at `:` and `=`, and so tears `--agent http://host:9308` apart; ours takes the line as
it was typed. What is offered comes without what stands before the last such mark, which bash keeps.
"""

from __future__ import annotations

import os
from typing import Any

from click.shell_completion import (
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

VARIABLE = "_KSHADOW_COMPLETE"

_BASH = """\
%(complete_func)s() {
    local line response
    COMPREPLY=()
    response=$(KSHADOW_LINE="${COMP_LINE:0:COMP_POINT}" KSHADOW_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1" 2>/dev/null) || return 0
    while IFS= read -r line; do
        case $line in
            plain,*) COMPREPLY+=("${line#plain,}") ;;
            dir,*) compopt -o dirnames 2>/dev/null ;;
            file,*) compopt -o default 2>/dev/null ;;
        esac
    done <<< "$response"
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(ShellComplete):
    """Bash 4.4 and later."""

    name = "bash"
    source_template = _BASH

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._kept = ""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words up to the cursor, and the one that it is in."""
        line = os.environ.get("KSHADOW_LINE", "")
        words = split_arg_string(line)
        last = words.pop() if words and not (line[-1:].isspace() and not line.endswith("\\ ")) else ""
        while words and "=" in words[0]:  # NAME=VALUE kshadow …
            words.pop(0)
        breaks = os.environ.get("KSHADOW_BREAKS", ":=")
        at = max((last.rfind(mark) for mark in ":=" if mark in breaks), default=-1)
        self._kept = last[: at + 1]
        return words[1:], last

    def format_completion(self, item: CompletionItem[str]) -> str:
        """`TYPE,VALUE`, without what bash keeps."""
        value = str(item.value)
        kept = self._kept
        if kept.startswith("-") and "=" in kept and not value.startswith("-"):
            # Of `--option=value` click gives the value alone.
            kept = kept.partition("=")[2]
        return f"{item.type},{value.removeprefix(kept)}"


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": ZshComplete, "fish": FishComplete}


def register() -> None:
    """Let click answer with these."""
    for name, shell in SHELLS.items():
        add_completion_class(shell, name)
