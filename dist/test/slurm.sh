#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Jobs of a real Slurm ask for schedulers: Debian's slurmctld, slurmd and munged in a virtual machine whose kernel has
# sched_ext. slurm-machine.sh and slurm-node.sh run inside it.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=setup.sh
. ./setup.sh
# shellcheck source=dist/test/roots.sh
. ./dist/test/roots.sh

root=$(mktemp)
files=$(mktemp -d)
trap 'rm -rf "$root" "$files"' EXIT
trap 'exit 130' INT TERM HUP

# use_in RELEASE systemd|plain: jobs in a machine with that root, below a systemd or without one.
use_in() {
	say "running jobs under the Slurm of Debian $1, $2"
	cp "$roots/slurm-$1.tar" "$root"
	tar --append --file="$root" --owner=0 --group=0 -C "$files" .
	target/release/flsched vm --kernel 6.18 --clock wall --cpus 2 --memory 2G --cgroup root --timeout 3000 -- \
		./dist/test/slurm-machine.sh "$2" <"$root" || fail "Debian $1, $2"
}

make --silent build
make --silent install DESTDIR="$files" PREFIX=/usr
cp dist/test/slurm-node.sh dist/test/cluster.sh "$files"
chmod 755 "$files"
install_missing mmdebstrap
make_slurm_root bookworm
make_slurm_root trixie
use_in bookworm plain
use_in trixie systemd
