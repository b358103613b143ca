#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Jobs of a real Slurm ask for schedulers: Debian's slurmctld, slurmd and munged in a virtual machine whose kernel has
# sched_ext. The roots are made here and kept in the cache folder. slurm-machine.sh and slurm-node.sh
# run inside it.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=setup.sh
. ./setup.sh

cache=$(cache_folder)
fail() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}
root=$(mktemp)
files=$(mktemp -d)
trap 'rm -rf "$root" "$files"' EXIT
trap 'exit 130' INT TERM HUP

# make_root RELEASE: a Debian with Slurm, and with a systemd that need not run.
make_root() {
	tarball=$cache/roots/slurm-$1.tar
	if [ ! -f "$tarball" ]; then
		say "making a root of Debian $1 with Slurm"
		mkdir -p "$cache/roots"
		# shellcheck disable=SC2086 # no word if there is no such mirror
		mmdebstrap --quiet --variant=minbase --format=tar \
			--include=slurmctld,slurmd,slurm-client,munge,systemd,dbus,libelf1,iproute2,procps \
			"$1" - ${FLSCHED_DEBIAN_MIRROR:-} >"$tarball.new" || fail "no root of Debian $1"
		mv "$tarball.new" "$tarball"
	fi
}

# use_in RELEASE systemd|plain: jobs in a machine with that root, below a systemd or without one.
use_in() {
	say "running jobs under the Slurm of Debian $1, $2"
	cp "$cache/roots/slurm-$1.tar" "$root"
	tar --append --file="$root" --owner=0 --group=0 -C "$files" .
	target/release/flsched vm --kernel 6.18 --clock wall --cpus 2 --memory 2G --cgroup root --timeout 3000 -- \
		./dist/test/slurm-machine.sh "$2" <"$root" || fail "Debian $1, $2"
}

make --silent build
make --silent install DESTDIR="$files" PREFIX=/usr
cp dist/test/slurm-node.sh "$files"
chmod 755 "$files"
install_missing mmdebstrap
make_root bookworm
make_root trixie
use_in bookworm plain
use_in trixie systemd
