"""Completion in shells, around Typer's.

In bash names with blanks are quoted, `--option=value` is completed as two words are, and files are offered only where a
file can stand. In zsh what completes is read line by line: Typer's script evaluates it, and names of files and columns
could be commands.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

_ASKED = "_THRESHER_COMPLETE", "complete_bash"
_BASH = r"""
%(complete_func)s() {
    local IFS=$'\n' found
    found=$(env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD %(autocomplete_var)s=complete_bash $1) ||
        compopt +o default 2> /dev/null
    COMPREPLY=()
    [[ -n $found ]] && mapfile -t COMPREPLY <<< "$found"
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]] && compopt -o nospace 2> /dev/null
    return 0
}

complete -o default -F %(complete_func)s %(prog_name)s
"""
_ZSH = r"""
#compdef %(prog_name)s

%(complete_func)s() {
    local line value help
    local -a found
    while IFS= read -r line; do
        value=${line%%%%$'\t'*}
        help=${${line#"$value"}#$'\t'}
        found+=("${${value//\\/\\\\}//:/\\:}${help:+:$help}")
    done < <(env _TYPER_COMPLETE_FISH_ACTION=get-args %(autocomplete_var)s=complete_fish \
        _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" %(prog_name)s)
    # Click says of a path what was typed.
    if [[ -z "$found" || "$found" == "${words[CURRENT]}" ]]; then _files; else _describe -V %(prog_name)s found; fi
}

if [[ $funcstack[1] == _%(prog_name)s ]]; then %(complete_func)s "$@"; else compdef %(complete_func)s %(prog_name)s; fi
"""


def prepare() -> None:
    """Let `--install-completion` and `--show-completion` write these scripts, and what completes stay in one line."""
    from typer import _completion_shared

    _completion_shared._completion_scripts |= {"bash": _BASH, "zsh": _ZSH}
    if _ASKED[0] in os.environ:
        os.environ["COLUMNS"] = "10000"  # Typer wraps help at the terminal's width, and shells read lines


def asked() -> bool:
    """Whether bash asks what completes a word."""
    return os.environ.get(_ASKED[0]) == _ASKED[1]


def complete(run: Callable[[], None], command_of: Callable[[Sequence[str]], Any]) -> int:
    """Print what `run`, Typer's completion, finds, as bash reads it. `command_of` is the command of some words.

    Returns: the exit code: 1 where bash shall not offer files in place of nothing.
    """
    words, place = _as_two_words(os.environ["COMP_WORDS"].split("\n"), int(os.environ["COMP_CWORD"]))
    typed = words[place] if place < len(words) else ""
    os.environ |= {"COMP_WORDS": "\n".join(words), "COMP_CWORD": str(place)}
    written = io.StringIO()
    with contextlib.redirect_stdout(written), contextlib.suppress(SystemExit):
        run()
    found = [line for line in written.getvalue().split("\n") if line]
    takes_files = not typed.startswith("-") and _takes_files(command_of(words[1:place]), words[place - 1])
    if takes_files and found == [typed]:
        found = []  # what Click says of a path: let the shell complete it
    quoted = typed.startswith(("'", '"'))
    for each in found:
        print(each if quoted else re.sub(r"[^\w@%+=:,./~-]", r"\\\g<0>", each))
    return 0 if found or takes_files else 1


def _as_two_words(words: Sequence[str], place: int) -> tuple[list[str], int]:
    """The words of a line, which bash cuts at equals signs, with an option and its value as two; and which is typed."""
    joined: list[str] = []
    typed = len(words)
    for index, word in enumerate(words):
        equals = word == "=" and joined and joined[-1].startswith("--")
        if not equals or index == place:
            joined.append("" if equals else word)
        if index == place:
            typed = len(joined) - 1
    return joined, min(typed, len(joined))


def _takes_files(command: Any, before: str) -> bool:
    """Whether a file can stand after this word: as the option's value, or as an argument."""
    option = next((each for each in command.params if before in each.opts and before.startswith("-")), None)
    if option is not None and not option.is_flag:
        return _is_path(option)
    return any(each.param_type_name == "argument" and _is_path(each) for each in command.params)


def _is_path(parameter: Any) -> bool:
    described = getattr(parameter, "type_descriptor", None)  # older releases of Typer have Click's types
    return bool(parameter.type.name == "path" if described is None else described.annotation is Path)
