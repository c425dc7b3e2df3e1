umask 077
HERMES_STATE=$(mktemp -d "${TMPDIR:-/tmp}/.hermes-XXXXXXXX") || exit 1
(
  for __f in "$HOME/.profile" "$HOME/.bash_profile" "$HOME/.bashrc"; do
    [ -r "$__f" ] && . "$__f"
  done
  unset __f HERMES_EXEC
  {
    if [ -n "$BASH_VERSION" ]; then
      printf '%s\n' 'for __v in $(compgen -e); do case $__v in HERMES_*|PWD|OLDPWD|SHLVL) ;; *) unset "$__v";; esac; done; unset __v'
      export -p; declare -f; alias -p
    else
      export -p
    fi
  } >"$HERMES_STATE/env"
) </dev/null >/dev/null 2>&1
printf '%s\n%s\n%s\n' "$HERMES_STATE" "$HOME" "$(pwd)"
