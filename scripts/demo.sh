#!/bin/sh
# The main job in small: the sample tasks are rolled out by a scripted model through the
# OpenAI wire form, with real tools in real boxes and real checkers. $1 is the binary.
set -eu
hermes=$1
out=build/demo
rm -rf "$out"
mkdir -p "$out"
exec "$hermes" demo --out "$out"
