#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs cargo for aarch64 on a machine that has another processor: ./dist/cross.sh build --release -p flsched
# libelf and zlib are compiled in, so that of aarch64 only the C library is needed. Installs nothing.
set -eu
cd "$(dirname "$0")/.."

target=aarch64-unknown-linux-gnu
prefix=aarch64-linux-gnu
fail() {
	printf 'cross: %s\n' "$*" >&2
	exit 1
}

# Everything that is missing is named at once, with what has it.
missing=
need() {
	missing="$missing
  $1: $2"
}
PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
command -v cargo >/dev/null 2>&1 || need cargo "./setup.sh, or https://rustup.rs"
if command -v rustc >/dev/null 2>&1 && [ ! -d "$(rustc --print sysroot)/lib/rustlib/$target" ]; then
	need "Rust's library for $target" "rustup target add $target"
fi
command -v $prefix-gcc >/dev/null 2>&1 || need $prefix-gcc "apt-get install gcc-aarch64-linux-gnu"
if command -v $prefix-gcc >/dev/null 2>&1 &&
	! printf '#include <stdio.h>\n' | $prefix-gcc -E - >/dev/null 2>&1; then
	need "aarch64's C library" "apt-get install libc6-dev-arm64-cross"
fi
for tool in autoreconf:autoconf aclocal:automake autopoint:autopoint bison:bison flex:flex gawk:gawk make:make \
	pkg-config:pkg-config; do
	command -v "${tool%:*}" >/dev/null 2>&1 || need "${tool%:*}, for libelf" "apt-get install ${tool#*:}"
done
[ -z "$missing" ] || fail "not everything is there that building for aarch64 needs:$missing"

export CC_aarch64_unknown_linux_gnu=$prefix-gcc AR_aarch64_unknown_linux_gnu=$prefix-ar
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$prefix-gcc
export PKG_CONFIG_ALLOW_CROSS=1
# Those of build scripts are not shared with the target's.
export CARGO_PROFILE_RELEASE_BUILD_OVERRIDE_OPT_LEVEL=0
subcommand=${1:?usage: dist/cross.sh SUBCOMMAND OF CARGO…}
shift
exec cargo "$subcommand" --target $target --locked --features flsched/vendored,flsched/top "$@"
