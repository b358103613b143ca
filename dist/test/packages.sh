#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds the packages, and uses them as their users do: in clean roots of Debian 12 and 13, which are made here and kept
# in the cache folder. in-root.sh runs inside them.
#   dist/test/packages.sh           for this machine's processor
#   dist/test/packages.sh aarch64   for that one: cross-built, and its roots' programs run under QEMU's user mode
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=setup.sh
. ./setup.sh

# shellcheck source=dist/test/roots.sh
. dist/test/roots.sh

machine=${1:-$(uname -m)}
case $machine in
x86_64) debian=amd64 loader=ld-linux-x86-64.so.2 ;;
aarch64) debian=arm64 loader=ld-linux-aarch64.so.1 ;;
*)
	echo "usage: dist/test/packages.sh [x86_64|aarch64]" >&2
	exit 2
	;;
esac
# Whether this machine's kernel hands programs of that processor to an emulator.
emulated=
[ "$machine" = "$(uname -m)" ] || emulated=yes

# What the apt of this machine needs to reach its mirror and to accept it: proxies, certificates, and the age of an index.
apt_settings() {
	apt-config dump | grep -E '^Acquire::(https?::|ForceIPv|Retries |Check-Valid-Until |Check-Date )' || true
}

root=
# Whatever ends this, no root is left.
trap '[ -z "$root" ] || as_root rm -rf --one-file-system "$root"' EXIT
trap 'exit 130' INT TERM HUP

# use_in RELEASE: unpacks a root, installs and uses the packages there, and removes the root.
use_in() {
	say "using the packages in Debian $1"
	root=$(mktemp -d)
	tarball=$(root_of "$1" $debian)
	archives=${tarball%.tar}.archives
	mkdir -p "$archives/partial"
	as_root tar -C "$root" -xf "$tarball"
	as_root mkdir -p "$root/packages" "$root/root/.cache/flsched"
	as_root cp target/packages/*"$debian"* target/packages/*"$machine"* dist/test/in-root.sh dist/test/checks.sh "$root/packages"
	apt_settings | as_root tee "$root/etc/apt/apt.conf.d/50host" >/dev/null
	# The root is thrown away, so dpkg need not wait until its files are on the disk.
	echo force-unsafe-io | as_root tee "$root/etc/dpkg/dpkg.cfg.d/50host" >/dev/null
	# A kernel that is in the cache is not fetched again.
	kernels=$(cache_folder)/kernels
	if [ -d "$kernels" ]; then
		as_root cp -R "$kernels" "$root/root/.cache/flsched"
	fi
	status=0
	# shellcheck disable=SC2016 # the inner shell's
	as_root unshare --mount --pid --fork --kill-child sh -c '
		mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
		mount --bind "$2" "$1/var/cache/apt/archives" &&
		exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root EMULATED="$3" chroot "$1" sh /packages/in-root.sh' \
		sh "$root" "$archives" "$emulated" || status=$?
	as_root rm -rf --one-file-system "$root"
	[ "$status" = 0 ] || fail "Debian $1"
}

# What the program needs is what the packages say that it needs.
check_program() {
	needed=$(readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p' | sort | tr '\n' ' ')
	case $needed in
	"$loader libc.so.6 libgcc_s.so.1 libm.so.6 " | "libc.so.6 libgcc_s.so.1 libm.so.6 ") ;;
	*) fail "the program needs $needed" ;;
	esac
	newest=$(readelf --dyn-syms -W "$1" | grep -o 'GLIBC_[0-9.]*' | sort -V | tail -n 1)
	grep -q "libc.so.6($newest)" dist/nfpm.yaml || fail "the program needs $newest, which nfpm.yaml does not name"
	echo "ok: the program needs ${needed}and $newest"
}

# make install and make uninstall, with folders as other systems have them.
check_install() {
	folder=$(mktemp -d)
	make --silent install DESTDIR="$folder" PREFIX=/opt/x UNITDIR=/opt/units || fail "make install"
	check_program "$folder/opt/x/bin/flsched"
	"$folder/opt/x/bin/flsched" --version >/dev/null || fail "the installed program does not run"
	grep -q '^ExecStart=/opt/x/bin/flsched ' "$folder/opt/units/flsched.service" || fail "the unit starts another program"
	echo '# mine' >>"$folder/etc/default/flsched"
	make --silent install DESTDIR="$folder" PREFIX=/opt/x UNITDIR=/opt/units
	grep -q mine "$folder/etc/default/flsched" || fail "make install has replaced the settings"
	make --silent uninstall DESTDIR="$folder" PREFIX=/opt/x UNITDIR=/opt/units
	left=$(find "$folder" ! -type d)
	[ "$left" = "$folder/etc/default/flsched" ] || fail "make uninstall leaves $left"
	rm -r "$folder"
	echo "ok: make install, make uninstall"
}

# refused WORDS COMMAND…: making packages fails with one line, and leaves what was there.
refused() {
	words=$1
	shift
	before=$(ls target/packages)
	if "$@" >"$folder/log" 2>&1; then
		fail "packages were made: $*"
	fi
	grep -q "^packages: .*$words" "$folder/log" || fail "no word of \"$words\": $(cat "$folder/log")"
	[ "$(ls target/packages)" = "$before" ] || fail "a failure changes target/packages: $*"
	echo "ok: packages: $words"
}

# What stands in the way is named, and nothing is half made.
check_refusals() {
	folder=$(mktemp -d)
	refused "set FLSCHED_CACHE" env FLSCHED_CACHE=/proc/none ./dist/package.sh
	refused "does not run" env NFPM=/no/such/nfpm ./dist/package.sh
	refused "go online" as_root unshare --net env "PATH=$PATH" "FLSCHED_CACHE=$folder" ./dist/package.sh
	# shellcheck disable=SC2016 # the inner shell's
	refused "could not be gathered" as_root unshare --mount env "PATH=$PATH" sh -c '
		mount -t tmpfs -o size=1M none target/packages
		if ./dist/package.sh || [ -n "$(ls target/packages)" ]; then exit 0; fi
		exit 1'
	rm -rf "$folder"
}

./dist/package.sh "$machine"
if [ -z "$emulated" ]; then
	check_install
	check_refusals
else
	install_missing qemu-user-static binfmt-support
	check_program "target/$machine-unknown-linux-gnu/release/flsched"
fi
install_missing mmdebstrap
for release in bookworm trixie; do
	make_root "$release" $debian
done
for release in bookworm trixie; do
	use_in "$release"
done
