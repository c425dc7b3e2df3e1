#!/bin/sh
# The model must say hello. Every request is a line that begins {"jsonrpc":"2.0","id":ID,"method":
while read -r line; do
  id=${line#*'"id":'} id=${id%%,*}
  case $line in
    *'"method":"initialize"'*) r='{"protocol":1,"name":"hello","toolsets":[],"abilities":["oracle"]}' ;;
    *'"method":"rows"'*) r='{"rows":[{"id":"1","prompt":"Say hello."}]}' ;;
    *'"method":"oracle"'*) r='{"messages":[{"role":"assistant","content":"hello"}]}' ;;
    *'"answer":"hello"'*) r=1 ;;
    *) r=0 ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$r"
done
