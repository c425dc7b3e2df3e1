[ -n "$BASH_VERSION" ] && shopt -s expand_aliases
[ -r "$HERMES_STATE/env" ] && . "$HERMES_STATE/env" 2>/dev/null
if [ -r "$HERMES_STATE/cwd" ]; then
  __d=$(cat "$HERMES_STATE/cwd")
  until cd -- "$__d" 2>/dev/null; do
    case $__d in */*) __d=${__d%/*} ;; *) break ;; esac
    [ -n "$__d" ] || __d=/
    [ "$__d" != / ] || { cd /; break; }
  done
  unset __d
fi
