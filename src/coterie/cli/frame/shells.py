"""What click's completion lacks: a bash script that copes with split words, and `--option=value` in zsh and fish."""

from __future__ import annotations

import os
from typing import ClassVar

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

# bash splits words at characters that occur in our values (`@`, `=`, `:`), so the whole line is sent. `type` and
# `value` are local: click's script leaves them behind in the user's shell.
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion type value
    response=$(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_LAST="$2" %(complete_var)s=bash_complete "$1")
    COMPREPLY=()
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    source_template: ClassVar[str] = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        self._word = ""
        if "COMP_LINE" not in os.environ:  # a script that an older release printed
            return super().get_completion_args()
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        if line[-1:].isspace():
            words.append("")
        self._word = words[-1]
        return words[1:-1], self._word

    def format_completion(self, item: CompletionItem) -> str:
        """bash replaces only the last of the parts that it split the word into."""
        last = os.environ.get("COMP_LAST", "")
        known = self._word[: len(self._word) - len(last)] if self._word.endswith(last) else ""
        return f"{item.type},{str(item.value).removeprefix(known)}"


class Zsh(ZshComplete):
    def get_completion_args(self) -> tuple[list[str], str]:
        words, self._word = super().get_completion_args()
        return words, self._word

    def format_completion(self, item: CompletionItem) -> str:
        return super().format_completion(_with_option(item, self._word))


class Fish(FishComplete):
    def get_completion_args(self) -> tuple[list[str], str]:
        words, self._word = super().get_completion_args()
        return words, self._word

    def format_completion(self, item: CompletionItem) -> str:
        return super().format_completion(_with_option(item, self._word))


def _with_option(item: CompletionItem, word: str) -> CompletionItem:
    """These shells replace the whole word, of which click completes only what stands after `--option=`."""
    option, equals, _ = word.partition("=")
    if item.type != "plain" or not equals or not option.startswith("--"):
        return item
    return CompletionItem(f"{option}={item.value}", help=item.help)


def register() -> None:
    for one in (Bash, Zsh, Fish):
        add_completion_class(one)
