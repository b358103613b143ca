#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds the packages and tries the service: a virtual machine with a stock kernel boots a clean Debian 13 whose process 1
# is systemd, and the .deb is installed there. in-machine.sh boots it inside the machine, in-systemd.sh makes the checks.
#   FLSCHED_TEST_PARTS="install,kill"   only these parts of in-systemd.sh, a boot for each word
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=setup.sh
. ./setup.sh
# shellcheck source=dist/test/roots.sh
. dist/test/roots.sh

# boot KERNEL PART,PART,… PART,…: these parts on this kernel, a boot of Debian for each list.
boot() {
	kernel=$1
	shift
	say "trying the service on kernel $kernel: $*"
	# A console of the machine is a device that nobody announces, and systemd would wait for it.
	target/release/flsched vm --kernel "$kernel" --clock wall --cpus 4 --memory 1280M --cgroup root --timeout 1800 \
		--append systemd.getty_auto=no --include "$(echo target/packages/flsched_*_amd64.deb)" \
		--include dist/test/in-systemd.sh --include dist/test/checks.sh -- sh dist/test/in-machine.sh "$@" <"$folder/root.tar" ||
		fail "the service on kernel $kernel"
}

# The machine has its files in memory, so what no part needs is left out.
shrink_root() {
	for unneeded in /usr/share/locale /usr/share/doc /usr/share/man /usr/share/groff /usr/share/zsh /usr/share/fish \
		/usr/bin/fish /usr/bin/python3 /usr/lib/python3 /usr/lib/x86_64-linux-gnu/perl /usr/lib/x86_64-linux-gnu/gconv \
		/var/cache; do
		set -- "$@" "--path-exclude=$unneeded*"
	done
	mmtarfilter "$@" <"$(root_of trixie amd64)" >"$folder/root.tar"
}

# The kernel that Debian 13 itself brings: it has no sched_ext.
make_stock_kernel() {
	stock=$roots/trixie-vmlinuz
	if [ ! -f "$stock" ]; then
		say "fetching Debian 13's own kernel"
		make_tarball "$roots/kernel.tar" trixie --variant=extract --include=linux-image-cloud-amd64
		tar -x -O -f "$roots/kernel.tar" --wildcards './boot/vmlinuz-*' >"$stock.new"
		mv "$stock.new" "$stock"
		rm "$roots/kernel.tar"
	fi
}

./dist/package.sh
install_missing mmdebstrap
make_root trixie amd64
make_stock_kernel
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP
shrink_root
if [ -n "${FLSCHED_TEST_PARTS:-}" ]; then
	# shellcheck disable=SC2086 # one word a boot
	boot 6.18 $FLSCHED_TEST_PARTS
	exit
fi
boot 6.18 install,start,settings,kill,eject,instance,scx,enable reboot,cpus,remove
boot "$stock" install,no_sched_ext no_sched_ext_booted
