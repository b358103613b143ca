# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Sourced by the tests of the packages: clean Debian roots, made by mmdebstrap and kept in the cache folder. Before it,
# setup.sh is sourced.

roots=$(cache_folder)/roots

fail() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}

# make_venv NAME PACKAGE...: a folder of Python packages in the cache folder; prints its python3.
make_venv() {
	venv=$(cache_folder)/$1
	shift
	if [ ! -x "$venv/bin/python3" ]; then
		install_missing python3-venv
		python3 -m venv "$venv.new"
		"$venv.new/bin/pip" install --quiet "$@" >&2 || fail "pip cannot install $*"
		mv "$venv.new" "$venv"
	fi
	printf %s "$venv/bin/python3"
}

# root_of RELEASE ARCHITECTURE: where make_root puts its Debian, as a tarball.
root_of() { printf %s "$roots/$1-$2.tar"; }

# make_root RELEASE ARCHITECTURE: a clean Debian, with systemd, a manual, and the shells that complete.
make_root() {
	if [ ! -f "$(root_of "$1" "$2")" ]; then
		say "making a root of Debian $1 for $2"
		make_tarball "$(root_of "$1" "$2")" "$1" --architectures="$2" --variant=minbase \
			--include=man-db,bash-completion,zsh,fish,systemd
	fi
}

# make_slurm_root RELEASE: a Debian in $roots/slurm-RELEASE.tar, with Slurm, and with a systemd that need not run.
make_slurm_root() {
	if [ ! -f "$roots/slurm-$1.tar" ]; then
		say "making a root of Debian $1 with Slurm"
		make_tarball "$roots/slurm-$1.tar" "$1" --variant=minbase \
			--include=slurmctld,slurmd,slurm-client,munge,systemd,dbus,libelf1,iproute2,procps
	fi
}

# make_tarball FILE RELEASE OPTION…: what mmdebstrap makes, as a whole or not at all.
make_tarball() {
	tarball=$1 release=$2
	shift 2
	mkdir -p "$roots"
	# shellcheck disable=SC2086 # no word if there is no such mirror
	mmdebstrap --quiet --format=tar "$@" "$release" - ${FLSCHED_DEBIAN_MIRROR:-} >"$tarball.new" ||
		fail "no root of Debian $release"
	mv "$tarball.new" "$tarball"
}
