#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# FLSCHED beside the schedulers of today, on real hackbench, in a virtual machine with a stock
# kernel: this machine's own scheduler is left alone.
set -eu
cd "$(dirname "$0")"
# Whatever the user has set: what is built here is used from here.
export CARGO_TARGET_DIR="$PWD/target"
. ./setup.sh

say "building (about three minutes the first time)"
cargo build --release --locked -p flsched >&2

flsched=target/release/flsched
say "simulating 228 CPUs, in seconds: a model of a machine, not a measurement"
"$flsched" compare --on sim --machine knc-31s1p --schedulers eevdf,flsched --workload hackbench:process-pipe:100:20 \
	--runs 3

# The last complete result stays until this run is complete.
run=target/demo/last-run
complete=target/demo/comparison
schedulers=eevdf,batch,fifo,rr,flsched
mkdir -p target/demo

say "building the emulator of the parallel clock (two or three minutes the first time)"
clock=parallel
build_emulator "$flsched" || clock=work

say "comparing on a stock 6.18 kernel with 4 virtual CPUs, on the $clock clock (about four minutes)"
"$flsched" compare --on vm --kernel 6.18 --cpus 4 --clock "$clock" --schedulers "$schedulers" \
	--workload hackbench --workload spin-barrier \
	--json "$run.json" --html "$run.html"
cp "$run.json" "$complete.json"
cp "$run.html" "$complete.html"

echo
echo "The same as a page with charts: $PWD/$complete.html"
if "$flsched" doctor >/dev/null 2>&1; then
	echo "The same on this machine itself, in real time:"
else
	echo "This machine cannot run FLSCHED itself as it is ($flsched doctor says why). Where one can:"
fi
echo "  sudo $PWD/$flsched compare --on host --schedulers $schedulers --workload hackbench --workload spin-barrier"
