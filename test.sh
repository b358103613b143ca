#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# All tests: units, then the policies on stock kernels in virtual machines.
#   ./test.sh            everything, on the kernels that differ most (17 minutes)
#   ./test.sh units      only the tests inside the crates; they need no virtual machine
#   ./test.sh matrix     every policy on every supported kernel series (two hours)
#   ./test.sh newest     every policy on the newest kernel that Debian offers, tried or not, and what fails there
#   ./test.sh aarch64    every policy on an emulated aarch64 machine, with the programs cross-built (an hour)
#   ./test.sh races      every policy where CPUs interleave at random, 100 seeds (hours; FLSCHED_TEST_SEEDS=20)
#   ./test.sh conformance   the simulator against the kernel in all scenarios, all schedulers (20 minutes)
#   ./test.sh recordings recorded loads against their replays in the simulator (12 minutes)
#   ./test.sh robustness  stress-ng and rt-tests under every policy beside EEVDF, two kernels (hours; FLSCHED_TEST_LOADS=futex,pipe)
#   ./test.sh packages   builds the packages, and installs, uses and removes them in clean Debian 12 and 13 (about 20 minutes)
#   ./test.sh packages aarch64   the same for aarch64, without virtual machines inside
#   ./test.sh service    builds the packages, and tries the service under systemd in virtual machines (about 6 minutes)
#   ./test.sh slurm      jobs of the Slurm of Debian 12 and 13 get schedulers, in virtual machines (about 20 minutes)
#   ./test.sh kubernetes the manifest for Kubernetes, and its command in a virtual machine (4 minutes)
#   ./test.sh campaign   10,000 simulations on HyperQueue, and on a Slurm of two nodes, one of which is killed (4 minutes)
#   ./test.sh pages      every page and picture that flsched writes, and pages of the site, in Chromium (12 minutes)
# All but the last six first compile their tests, which takes minutes, also after a build of flsched: `units` compiles the whole
# workspace once more, as tests, and some 40 crates that only tests need or need with other features. The minutes of packages,
# service and slurm are those after a build, with the roots of Debian in the cache folder, on two busy cores.
set -eu
cd "$(dirname "$0")"
# Whatever the user has set: what is built here is used from here.
export CARGO_TARGET_DIR="$PWD/target"

suite=${1:-all}
case $suite in
units) set -- --workspace --lib --bins ;;
all) set -- --workspace ;;
matrix)
	export FLSCHED_TEST_ALL=1 FLSCHED_TEST_KERNELS=build:6.12,6.16,6.18,7.0,7.2,7.3 FLSCHED_TEST_ROUNDS=2
	set -- -p flsched -p flsched-lab --test kernels --test probes --test overhead
	;;
newest)
	export FLSCHED_TEST_ALL=1
	set -- -p flsched --no-fail-fast --test kernels --test probes
	;;
aarch64)
	export FLSCHED_TEST_ARCH=aarch64 FLSCHED_TEST_KERNELS=6.18 FLSCHED_TEST_MACHINES="${FLSCHED_TEST_MACHINES:-work,jitter}"
	set -- -p flsched --test kernels
	;;
races)
	export FLSCHED_TEST_MACHINES=jitter FLSCHED_TEST_KERNELS=6.18 FLSCHED_TEST_SEEDS="${FLSCHED_TEST_SEEDS:-100}"
	set -- -p flsched --test kernels
	;;
conformance)
	export FLSCHED_TEST_CONFORMANCE="${FLSCHED_TEST_CONFORMANCE:-all}"
	set -- -p flsched --test conformance
	;;
recordings)
	export FLSCHED_TEST_RECORDINGS="${FLSCHED_TEST_RECORDINGS:-all}"
	set -- -p flsched --test recordings
	;;
robustness)
	export FLSCHED_TEST_ROBUSTNESS="${FLSCHED_TEST_ROBUSTNESS:-all}"
	set -- -p flsched-lab --test robustness
	;;
packages | service | slurm | campaign | kubernetes | pages)
	shift
	exec "./dist/test/$suite.sh" "$@"
	;;
*)
	echo "usage: ./test.sh [all|units|matrix|newest|aarch64|races|conformance|recordings|robustness|packages|service|slurm|campaign|kubernetes|pages]" >&2
	exit 2
	;;
esac
. ./setup.sh
if [ "$suite" = recordings ]; then
	install_missing postgresql
fi
if [ "$suite" = robustness ]; then
	install_missing stress-ng
fi

emulated=
if [ "$suite" = aarch64 ]; then
	say "building for aarch64"
	emulated="--arch aarch64"
	install_cross
	install_missing libfdt-dev qemu-user
	./dist/cross.sh build --release -p flsched >&2
	say "testing units for aarch64, under QEMU's user mode"
	# There a program that cannot be started seems to have been, Debian 12's C library opens no object in memory, and clang
	# and /bin/ls are this machine's.
	libraries=/usr/aarch64-linux-gnu/lib
	CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 $libraries/ld-linux-aarch64.so.1 --library-path $libraries" \
		./dist/cross.sh test --release --workspace --lib --bins -- --skip a_command_that_cannot_be_started \
		--skip a_program_without_the_option --skip ext::tests --skip a_copy_of_a_policy_compiles \
		--skip a_program_comes_with_loader
	# Cargo says where the test is.
	FLSCHED_TEST_PROGRAM=$PWD/$(./dist/cross.sh test --release --no-run "$@" 2>&1 | tee /dev/stderr |
		sed -n 's/^ *Executable .*(\(.*\))$/\1/p')
	export FLSCHED_TEST_PROGRAM
	[ -f "$FLSCHED_TEST_PROGRAM" ] || die "the test was not built for aarch64; see above"
fi

# What is tested, and no more: other packages or targets would have the dependencies built again with other features.
# The emulator of the parallel clock is built beside the tests, as soon as the program is there that builds it: cargo leaves
# CPUs idle at times.
say "building"
if [ "$suite" != units ]; then
	marks=$(mktemp -d)
	trap 'exit 130' INT TERM
	(
		trap - EXIT INT TERM
		until [ -e "$marks/built" ] || [ -n "$(find target/release/flsched -newer "$marks" 2>/dev/null)" ]; do sleep 1; done
		# shellcheck disable=SC2086 # an option and its value
		exec target/release/flsched emulator build $emulated >&2
	) &
	emulator=$!
	trap 'kill "$emulator" 2>/dev/null || true; rm -rf "$marks"' EXIT
fi
if [ "$suite" = robustness ]; then
	# It builds the emulator; the tests are an flsched of their own.
	cargo build --release --locked -p flsched --features flsched/top >&2
fi
cargo test --release --locked --no-run --features flsched/top "$@" >&2
if [ "$suite" != units ]; then
	touch "$marks/built"
	say "building the emulator of the parallel clock"
	wait "$emulator" || die "the parallel clock is not available; see above"
fi
if [ "$suite" = newest ]; then
	# The list has the oldest first. Such a kernel may well refuse all schedulers: then that is what fails.
	FLSCHED_TEST_KERNELS=$(target/release/flsched vm --list | awk '/ downloaded | to download / { newest = $1 } END { print newest }')
	export FLSCHED_TEST_KERNELS
	[ -n "$FLSCHED_TEST_KERNELS" ] || die "no kernel is offered; see above"
	say "the newest kernel is $FLSCHED_TEST_KERNELS"
fi
say "testing"
# Its own exit code says more than cargo's, which is 101 for any failure, or xargs's.
case $suite in
robustness) cargo test --release --locked --features flsched/top "$@" || exit 1 ;;
all)
	# The policies on kernels take almost as long as all other tests, and each of the two leaves CPUs idle at times. The last
	# line goes to whichever ends first.
	printf '%s\n' "--test kernels" "--lib --bins --test [!kv]*" "--test vm" | xargs -P 2 -I '{}' sh -f -c \
		'exec cargo test --release --locked --features flsched/top --workspace {} -- --include-ignored' || exit 1
	;;
*) cargo test --release --locked --features flsched/top "$@" -- --include-ignored ;;
esac
