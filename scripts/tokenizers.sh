#!/bin/sh
# Builds libtokenizers.a for the build tag hftokenizers, from the Rust sources that come
# with the Go module, into build/hftokenizers. Needs go, cargo, a C and a C++ compiler.
set -eu
GO=${GO:-go}
out=${1:-build/hftokenizers}
mkdir -p "$out"
out=$(cd "$out" && pwd)
module=github.com/daulet/tokenizers
version=$("$GO" list -m -f '{{.Version}}' "$module")
if [ "$(cat "$out/version" 2>/dev/null)" = "$version" ] && [ -f "$out/libtokenizers.a" ]; then
	echo "tokenizers: $out/libtokenizers.a is of $version already"
	exit 0
fi
for p in cargo cc c++; do
	command -v "$p" >/dev/null || { echo "tokenizers: no $p; the pure Go tokenizer needs none of this" >&2; exit 3; }
done
"$GO" mod download "$module"
dir=$("$GO" list -m -f '{{.Dir}}' "$module")

# The module cache is read-only: build a copy. It names tiktoken-rs by a Git address; the
# registry has the same version. The browser's crate is left out.
rm -rf "$out/src"
mkdir -p "$out/src"
cp -R "$dir/Cargo.toml" "$dir/Cargo.lock" "$dir/LICENSE" "$dir/crates" "$out/src/"
chmod -R u+w "$out/src"
rm -rf "$out/src/crates/tokenizers-wasm"
sed -i.orig -e '/crates\/tokenizers-wasm/d' "$out/src/Cargo.toml"
sed -i.orig -e 's|^tiktoken-rs = .*|tiktoken-rs = "=0.9.1"|' "$out/src/crates/tokenizers/Cargo.toml"
(cd "$out/src" && CARGO_TARGET_DIR="$out/target" cargo build --release -p tokenizers-ffi)
for lib in "$out"/target/release/lib*.a; do
	cp "$lib" "$out/libtokenizers.a"
done
rm -rf "$out/target" "$out/src"
echo "$version" >"$out/version"
echo "tokenizers: $out/libtokenizers.a"
