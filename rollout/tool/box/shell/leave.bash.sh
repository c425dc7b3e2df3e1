__leave() {
  case ${POSIXLY_CORRECT+x} in
  x) \set +eux; \unset -f builtin __leave; \unset HERMES_EXEC ;;
  *) POSIXLY_CORRECT=; \set +eux; \unset -f builtin __leave; \unset HERMES_EXEC POSIXLY_CORRECT ;;
  esac
  {
    builtin pwd
    builtin printf '\0%s\0' "$OLDPWD"
    builtin export -n PWD OLDPWD
    builtin declare -px
    builtin printf '\0'
    builtin alias -p
    builtin printf '\0'
    builtin declare -f
    builtin printf '\0.\0'
  } >|/proc/self/fd/47
}
