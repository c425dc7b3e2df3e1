__leave() {
  \set +eux
  \unset -f pwd printf __leave
  \unset HERMES_EXEC
  {
    \pwd
    \printf '\0%s\0' "$OLDPWD"
    \unset PWD OLDPWD
    \export -p
    \printf '\0\0\0.\0'
  } >|/proc/self/fd/47
}
