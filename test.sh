#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# All tests: units in milliseconds, then FLSCHED on stock kernels in virtual machines.
#   ./test.sh            everything
#   ./test.sh units      only what needs no virtual machine
set -eu
cd "$(dirname "$0")"
. ./setup.sh

case ${1:-all} in
units) set -- --lib --bins ;;
all) set -- ;;
*)
	echo "usage: ./test.sh [all|units]" >&2
	exit 2
	;;
esac

say "building"
cargo build --release --locked --workspace >&2
say "testing"
cargo test --release --locked --workspace "$@" -- --include-ignored
