#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Every page and picture that flsched writes, and pages of the site, in a real browser: Debian's Chromium, without a network. pages.py says what
# must hold there.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=setup.sh
. ./setup.sh
# shellcheck source=dist/test/roots.sh
. ./dist/test/roots.sh

folder=$(mktemp -d)
trap 'rm -rf --one-file-system "$folder"' EXIT
trap 'exit 130' INT TERM HUP

install_missing chromium
python=$(make_venv pages-1 playwright==1.65.2 axe-playwright-python==0.1.8)
make --silent build
cargo build --release --locked -p flsched-lab >&2
flsched=$PWD/target/release/flsched

# page NAME WORD...: `flsched WORD...` writes the page or picture of this name.
page() {
	name=$1
	shift
	say "$name: flsched $*"
	"$flsched" "$@" >"$folder/log" 2>&1 || fail "$(tail -n 5 "$folder/log")"
	[ -s "$folder/$name" ] || fail "$name was not written"
}

model='--on sim --machine i7-2670qm --seed 7'
# shellcheck disable=SC2086 # several words
page compare.html compare $model --schedulers cfs,flsched,smove,rr2 --runs 6 --timeline \
	--workload hackbench:process-pipe:2:20 --workload hogs:20:1 --html "$folder/compare.html"
# Without verdicts, and with names that are long and look like HTML.
page why.html compare --on vm --kernel 6.18 --cpus 4 --schedulers eevdf,flsched:slice_us=3000 --runs 2 --seed 7 --why \
	--timeline --workload spin-barrier:16:20 --html "$folder/why.html" -- \
	sh -c ': "<script>alert(1)</script> & <b>"; head -c 2000000 /dev/zero | od | tail -n 1 # a-word-that-is-too-long-for-any-line-of-any-page-and-cannot-be-broken-at-a-space'
page advise.html advise --on vm --cpus 2 --seed 7 --html "$folder/advise.html" -- sh -c 'seq 100000 | sort -R | tail -n 1'
cat >"$folder/campaign.toml" <<TEXT
shards = 1

[[comparison]]
name = "campaign"
arguments = "$model --schedulers cfs,flsched --workload hogs:20:1 --runs 5"
TEXT
"$flsched" campaign plan "$folder/campaign.toml" --out "$folder/campaign" >/dev/null
"$flsched" campaign run "$folder/campaign" --jobs "$(nproc)" >/dev/null 2>&1
"$flsched" campaign merge "$folder/campaign" >/dev/null
mv "$folder/campaign/campaign.html" "$folder/campaign.html"
say "reproduce.html: flsched-lab reproduce"
target/release/flsched-lab reproduce --only table-1-flsched --out "$folder/reproduce.html" >"$folder/log" 2>&1 ||
	fail "$(tail -n 5 "$folder/log")"
page timeline.svg sim --machine i7-2670qm --seed 7 --workload hackbench:process-pipe:1:5 --svg "$folder/timeline.svg"
page sweep.svg sim sweep --machine i7-2670qm --set costs.switch_ns=1000..3000:3 --schedulers cfs,flsched \
	--workload hackbench:process-pipe:1:5 --svg "$folder/sweep.svg"
cp docs/pictures/*.svg "$folder/"
# The site: a page of each kind, and those with the longest lines and tables.
say "the site"
cargo run --quiet --release --locked -p flsched-lab -- site "$folder/site"
site=
for name in index results/index results/parallel-4 results/overhead results/paper-flsched docs/reference/commands \
	docs/explanation/flsched policies/flsched.bpf.c; do
	site="$site $folder/site/$name.html"
done

say "looking at them"
# shellcheck disable=SC2086 # several names
"$python" dist/test/pages.py "$folder"/*.html "$folder"/*.svg $site
