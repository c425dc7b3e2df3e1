__leave() {
  __rc=$?
  { set +eux; } 2>/dev/null
  trap - EXIT
  [ -n "$HERMES_KEEP_CWD" ] || pwd >"$HERMES_STATE/cwd.new"
  (
    unset -f __leave
    unset __rc HERMES_EXEC
    if [ -n "$BASH_VERSION" ]; then
      printf '%s\n' 'for __v in $(compgen -e); do case $__v in HERMES_*|PWD|OLDPWD|SHLVL) ;; *) unset "$__v";; esac; done; unset __v'
      export -p; declare -f; alias -p
    else
      export -p
    fi
  ) >"$HERMES_STATE/env.new" && command -p mv -f "$HERMES_STATE/env.new" "$HERMES_STATE/env"
  [ -n "$HERMES_KEEP_CWD" ] || command -p mv -f "$HERMES_STATE/cwd.new" "$HERMES_STATE/cwd"
  exit "$__rc"
} 2>/dev/null
trap __leave EXIT
