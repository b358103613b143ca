#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Installs what building and trying FLSCHED needs, and only what is missing. Safe to run again.
# demo.sh and test.sh source it, so that PATH and BPF_CLANG hold there; it also runs on its own.
set -eu

NEEDED_RUST=1.91
# In the order in which they are tried.
CLANG_VERSIONS='19 22 21 20 18'

say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() {
	printf 'setup: %s\n' "$*" >&2
	exit 1
}

# Where the program keeps what it has fetched and built.
cache_folder() {
	printf %s "${FLSCHED_CACHE:-${XDG_CACHE_HOME:-${HOME:?is not set: set it, or FLSCHED_CACHE}/.cache}/flsched}"
}

# version_at_least HAVE WANTED: compares dotted numbers.
version_at_least() {
	[ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

print_needs() {
	cat >&2 <<-TEXT
		setup: this system has no apt, so please install by hand:
		  - clang 18 or newer with libclang; name it in BPF_CLANG if it is not called clang-19
		  - a C compiler, make, pkg-config, the headers of libelf and zlib
		  - Rust $NEEDED_RUST or newer with cargo
		  - for virtual machines: qemu-system-$(uname -m), busybox, and dpkg and apt for Debian's kernels
		  - for their parallel clock: ninja, Meson 1.5, Python with venv, patch, bzip2, the headers of glib
		  - for the comparison: hackbench (rt-tests); for more of its workloads perf, and the OpenMP
		    runtime of that clang with its headers (libomp)
		then run: cargo build --release
	TEXT
	exit 1
}

as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1; then
		sudo "$@"
	else
		die "needs root for: $* (run it as root, or install sudo)"
	fi
}

is_installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Whether a package can be installed. A package that only others name is known, but has no version.
is_available() {
	apt-cache show --no-all-versions "$1" 2>/dev/null | grep -q '^Version:'
}

# The clang that is there, else the newest one that can be had.
choose_clang() {
	if [ -n "${BPF_CLANG:-}" ]; then
		return
	fi
	for version in $CLANG_VERSIONS; do
		if command -v "clang-$version" >/dev/null 2>&1; then
			BPF_CLANG=clang-$version
			break
		fi
	done
	if [ -z "${BPF_CLANG:-}" ]; then
		for version in $CLANG_VERSIONS; do
			if is_available "clang-$version"; then
				BPF_CLANG=clang-$version
				break
			fi
		done
	fi
	[ -n "${BPF_CLANG:-}" ] || die "no clang 18 or newer is to be had from this system's package sources"
	export BPF_CLANG
}

# install_missing PACKAGE…: installs those that are not there.
install_missing() {
	missing=
	for package in "$@"; do
		is_installed "$package" || missing="$missing $package"
	done
	if [ -n "$missing" ]; then
		say "installing:$missing"
		# shellcheck disable=SC2086 # one word a package
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing >&2 ||
			die "apt-get could not install:$missing"
	fi
}

# What compiling libelf in needs: it comes as a source that its own developers' tools configure.
install_for_libelf() { install_missing autoconf automake autopoint bison flex gawk; }

# What dist/cross.sh needs to build for aarch64 on another machine.
install_cross() {
	install_for_libelf
	install_missing gcc-aarch64-linux-gnu libc6-dev-arm64-cross
	if [ ! -d "$(rustc --print sysroot)/lib/rustlib/aarch64-unknown-linux-gnu" ]; then
		say "installing Rust's library for aarch64"
		rustup target add aarch64-unknown-linux-gnu >&2 || die "rustup could not install Rust's library for aarch64"
	fi
}

# QEMU for this machine's own processor, as the package and as the program.
qemu_package() {
	case $(uname -m) in
	aarch64) echo "qemu-system-arm libfdt-dev" ;;
	*) echo qemu-system-x86 ;;
	esac
}

install_packages() {
	# A machine that has just been set up knows no packages yet.
	if ! is_available rt-tests; then
		say "reading the package lists"
		as_root apt-get update -q >&2
	fi
	choose_clang
	version=${BPF_CLANG##*-}
	wanted="$BPF_CLANG libclang-$version-dev gcc libc6-dev make pkg-config libelf-dev zlib1g-dev
		$(qemu_package) busybox-static rt-tests ca-certificates curl
		libglib2.0-dev meson ninja-build patch python3-venv bzip2 xz-utils"
	# Workloads of `flsched compare` that other systems may call otherwise, and that one can do without.
	for package in "libomp-$version-dev" linux-perf; do
		if is_available "$package"; then
			wanted="$wanted $package"
		fi
	done
	if [ "${FLSCHED_SETUP_LINT:-}" = 1 ]; then
		wanted="$wanted clang-format-$version shellcheck"
	fi
	# shellcheck disable=SC2086 # one word a package
	install_missing $wanted
}

qemu_version() {
	"qemu-system-$(uname -m)" --version 2>/dev/null | sed -n 's/^QEMU emulator version \([0-9.]*\).*/\1/p'
}

# install_from_backports PACKAGE…: installs packages from the backports of this Debian. The sources are
# named for this one call, in a folder of their own, so that nothing else comes from there, now or later.
install_from_backports() {
	# shellcheck disable=SC1091
	codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
	# shellcheck disable=SC2016 # the names are apt's
	mirror=$(apt-get indextargets --format '$(ORIGIN) $(RELEASE) $(REPO_URI)' |
		sed -n "s/^Debian $codename //p" | head -n 1)
	if [ -z "$codename" ] || [ -z "$mirror" ]; then
		say "this system has no backports to take $* from"
		return 1
	fi
	say "installing from $codename-backports: $*"
	folder=$(mktemp -d)
	chmod 755 "$folder"
	mkdir -p "$folder/sources" "$folder/lists/partial"
	cat >"$folder/sources/backports.sources" <<-TEXT
		Types: deb
		URIs: $mirror
		Suites: $codename $codename-backports
		Components: main
		Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
	TEXT
	options="-q -o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$folder/sources
		-o Dir::State::Lists=$folder/lists"
	done=0
	# shellcheck disable=SC2086 # one word an option
	as_root apt-get $options update >&2 &&
		as_root env DEBIAN_FRONTEND=noninteractive apt-get $options install -y \
			--no-install-recommends -t "$codename-backports" "$@" >&2 || done=1
	as_root rm -rf "$folder"
	return $done
}

meson_version() {
	dpkg-query -W -f '${Version}' meson 2>/dev/null | sed 's/-.*//'
}

# What Debian 12 has too old. Before QEMU 8.1 an emulated machine with several CPUs crashes now and then
# when its kernel patches its own code, which attaching a scheduler makes it do, and its CPUs take long
# turns on the work clock. Building the emulator of the parallel clock needs Meson 1.5.
newer_packages() {
	old=
	version_at_least "$(qemu_version)" 8.1 || old="$old $(qemu_package)"
	version_at_least "$(meson_version)" 1.5 || old="$old meson"
	if [ -n "$old" ]; then
		# shellcheck disable=SC2086 # one word a package
		install_from_backports $old || say "that did not work; going on without newer:$old"
	fi
}

# Builds the emulator of the parallel clock, once; the program that is given does it. All else works without.
build_emulator() {
	"$1" emulator build >&2 || {
		say "the parallel clock is not available; see above"
		return 1
	}
}

rust_version() {
	# Otherwise rustup's cargo fetches a toolchain that is missing, and says nothing here.
	RUSTUP_AUTO_INSTALL=0 cargo --version 2>/dev/null | cut -d ' ' -f 2
}

has_rust() {
	command -v cargo >/dev/null 2>&1 && version_at_least "$(rust_version)" "$NEEDED_RUST"
}

install_rust() {
	PATH=$PATH:${CARGO_HOME:-${HOME:?is not set: set it, or CARGO_HOME}/.cargo}/bin
	export PATH
	channel=$(sed -n 's/^channel = "\(.*\)"/\1/p' rust-toolchain.toml 2>/dev/null || echo stable)
	if has_rust; then
		return
	fi
	rust=$(rust_version)
	if [ -n "$rust" ]; then
		say "cargo $rust is older than $NEEDED_RUST, which the BPF libraries need"
	fi
	if ! command -v rustup >/dev/null 2>&1 && is_available rustup; then
		say "installing: rustup"
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends rustup >&2 ||
			say "that did not work; taking rustup from its own site"
	fi
	if command -v rustup >/dev/null 2>&1; then
		say "installing Rust $channel with rustup"
		rustup toolchain install "$channel" --profile minimal -c rustfmt -c clippy >&2
	else
		say "installing Rust $channel with rustup's own installer into ${CARGO_HOME:-$HOME/.cargo}"
		# The host of the toolchains, which https://sh.rustup.rs gets this file from.
		curl --proto '=https' --tlsv1.2 -sSf https://static.rust-lang.org/rustup/rustup-init.sh |
			sh -s -- -y -q --default-toolchain "$channel" --profile minimal -c rustfmt -c clippy >&2
	fi || true
	PATH=${CARGO_HOME:-$HOME/.cargo}/bin:$PATH
	if ! has_rust && command -v rustup >/dev/null 2>&1; then
		say "Rust $channel could not be installed; trying the stable toolchain"
		export RUSTUP_TOOLCHAIN=stable
	fi
	if ! has_rust; then
		die "no Rust $NEEDED_RUST or newer, and none could be installed: see https://rustup.rs, then run this again"
	fi
}

if ! command -v apt-get >/dev/null 2>&1 || ! command -v dpkg-query >/dev/null 2>&1; then
	print_needs
fi
case $(uname -m) in
x86_64 | aarch64) ;;
*) die "FLSCHED is for x86_64 and aarch64; this machine is $(uname -m)" ;;
esac
install_packages
newer_packages
install_rust
