#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# A campaign of 10,000 simulations on real engines: on HyperQueue, and on a Slurm of two nodes one of which is
# killed in the middle. Each must give the report of one machine. campaign-cluster.sh runs inside the Slurm.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=setup.sh
. ./setup.sh
# shellcheck source=dist/test/roots.sh
. ./dist/test/roots.sh

folder=$(mktemp -d)
trap 'rm -rf --one-file-system "$folder"' EXIT
trap 'exit 130' INT TERM HUP

make --silent build
flsched=$PWD/target/release/flsched
words="--on sim --machine i7-2670qm --schedulers cfs,flsched,smove,rr2 --workload hogs:20:1 --workload hackbench:process-pipe:1:2 --runs 1000 --seed 7"
cat >"$folder/campaign.toml" <<TEXT
shards = 12

[[comparison]]
name = "hogs"
arguments = "$words"
TEXT

say "10,000 simulations on one machine"
# The report names its command line.
mkdir "$folder/bin"
ln -s "$flsched" "$folder/bin/flsched"
# shellcheck disable=SC2086 # several words
PATH=$folder/bin:$PATH flsched compare $words --jobs "$(nproc)" --json "$folder/one.json" >"$folder/log" 2>&1 ||
	fail "$(tail -n 5 "$folder/log")"

say "the same on HyperQueue"
python=$(make_venv hyperqueue-0.27.0 hyperqueue==0.27.0)
"$flsched" campaign plan "$folder/campaign.toml" --out "$folder/hyperqueue" >/dev/null
"$python" "$folder/hyperqueue/submit-to-hyperqueue.py" --local "$(nproc)" --shards 1-7 >"$folder/log" 2>&1 ||
	fail "$(tail -n 20 "$folder/log")"
! "$flsched" campaign merge "$folder/hyperqueue" 2>"$folder/log" || fail "shards are missing, and were merged"
grep -q '5 of 12 shards are missing.*--array=8-12 ' "$folder/log" || fail "$(cat "$folder/log")"
"$python" "$folder/hyperqueue/submit-to-hyperqueue.py" --local "$(nproc)" --shards 8-12 >"$folder/log" 2>&1 ||
	fail "$(tail -n 20 "$folder/log")"
"$flsched" campaign merge "$folder/hyperqueue" >/dev/null
cmp "$folder/one.json" "$folder/hyperqueue/hogs.json" || fail "not the report of one machine"

say "the same on a Slurm of two nodes, one of which is killed"
install_missing mmdebstrap
make_slurm_root bookworm
mkdir "$folder/root"
as_root tar -C "$folder/root" -xf "$roots/slurm-bookworm.tar"
as_root cp "$flsched" "$folder/root/usr/bin/flsched"
as_root cp dist/test/campaign-cluster.sh dist/test/cluster.sh "$folder/campaign.toml" "$folder/root/"
status=0
# shellcheck disable=SC2016 # the inner shell's
as_root unshare --mount --net --uts --pid --fork --kill-child sh -c '
	mount -t proc proc "$1/proc" && mount --rbind /sys "$1/sys" && mount --rbind /dev "$1/dev" &&
	exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root chroot "$1" sh /campaign-cluster.sh' \
	sh "$folder/root" || status=$?
[ "$status" = 0 ] || fail "Slurm"
cmp "$folder/one.json" "$folder/root/results/hogs.json" || fail "not the report of one machine"
as_root rm -rf --one-file-system "$folder/root"
say "campaigns: all passed"
