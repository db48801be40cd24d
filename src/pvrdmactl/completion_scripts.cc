// The scripts by which shells ask pvrdmactl for completions. They do not depend on the table of commands.
#include "pvrdmactl/completion.h"

namespace pvrdma::ctl {
namespace {

constexpr std::string_view kBash =
    R"bash(# Completion of pvrdmactl(1) for bash, as pvrdmactl --completion bash prints it.

_pvrdmactl() {
  local current=${COMP_WORDS[COMP_CWORD]} line
  COMPREPLY=()
  [[ $current == = ]] && current=  # bash makes a word of its own of the = in --option=value
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      compopt -o filenames 2>/dev/null
      while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$current")
    else
      COMPREPLY+=("${line%%$'\t'*}")
    fi
  done < <("${COMP_WORDS[0]}" --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}

complete -F _pvrdmactl pvrdmactl esxcli
)bash";

constexpr std::string_view kFish =
    R"fish(# Completion of pvrdmactl(1) for fish, as pvrdmactl --completion fish prints it.

function __pvrdmactl_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    for line in ($words[1] --complete $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = ":files"
            set -l option (string match -r -- '^--[^=]*=' "$current")
            set -l part (string replace -r -- '^--[^=]*=' '' "$current")
            for file in (__fish_complete_path "$part")
                echo "$option$file"
            end
        else
            echo $line
        end
    end
end

complete -c pvrdmactl -f -a '(__pvrdmactl_complete)'
complete -c esxcli -f -a '(__pvrdmactl_complete)'
)fish";

constexpr std::string_view kZsh = R"zsh(#compdef pvrdmactl esxcli
# Completion of pvrdmactl(1) for zsh, as pvrdmactl --completion zsh prints it.

_pvrdmactl() {
  local line files= tab=$'\t'
  local -a found
  while IFS= read -r line; do
    if [[ $line == :files ]]; then
      files=yes
    else
      found+=("${line/$tab/:}")  # names and words have no colon
    fi
  done < <("${(Q)words[1]}" --complete "${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null)
  (( $#found )) && _describe pvrdmactl found
  if [[ -n $files ]]; then
    compset -P '--*='
    _files
  fi
}

# When the shell loads this file by itself, this is the first call.
if [[ $funcstack[1] == _pvrdmactl ]]; then
  _pvrdmactl "$@"
else
  compdef _pvrdmactl pvrdmactl esxcli
fi
)zsh";

}  // namespace

std::string_view completion_script(std::string_view shell) {
  if (shell == "fish") return kFish;
  return shell == "zsh" ? kZsh : kBash;
}

}  // namespace pvrdma::ctl
