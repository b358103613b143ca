#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs as root in a Debian with Slurm, in namespaces of its own: a cluster of two nodes runs a campaign, and one node is
# killed in the middle. campaign.sh calls it.
set -eu
export LC_ALL=C.UTF-8

fail() {
	printf 'FAILED: %s\n' "$*"
	set +e
	squeue --array
	sinfo --long --Node
	tail -n 20 /var/log/slurm/*.log /results/log/* 2>&1
	exit 1
}

# shellcheck source=dist/test/cluster.sh
. /cluster.sh

are() { # STATE NODES
	[ "$(sinfo --noheader --nodes "$2" --format %T)" = "$1" ]
}

shards_stored() {
	[ "$(find /results/shards -name '*.json' | wc -l)" -ge "$1" ]
}

# The numbers of the processes of a shard on node2 in $shard.
runs_on_node2() {
	shard=
	for pid in $(pgrep -f 'flsched campaign run'); do
		if tr '\0' '\n' <"/proc/$pid/environ" | grep -qx SLURMD_NODENAME=node2; then
			shard="$shard $pid"
		fi
	done
	[ -n "$shard" ]
}

queue_is_empty() {
	[ -z "$(squeue --noheader)" ]
}

prepare head
{
	settings head
	cat <<-TEXT
		SlurmUser=root
		NodeName=node[1-2] NodeHostname=head NodeAddr=192.0.2.1 Port=[17001-17002] CPUs=1
		PartitionName=all Nodes=node[1-2] Default=YES
		SlurmdSpoolDir=/var/spool/slurmd-%n
		SlurmdPidFile=/run/slurmd-%n.pid
		SlurmdTimeout=10
	TEXT
} >/etc/slurm/slurm.conf
without_systemd
start_munge
slurmctld
for node in node1 node2; do
	mkdir -p /var/spool/slurmd-$node
	slurmd -N $node
done
eventually 60 are idle node1,node2

cd /
flsched campaign plan campaign.toml --out results >/dev/null
sbatch results/slurm.sh >/dev/null
eventually 120 shards_stored 3
eventually 60 runs_on_node2
# A node that loses power: its daemon and its jobs are gone at once.
pkill -9 -f 'slurmd -N node2'
for pid in $shard; do
	kill -9 "$(ps -o ppid= -p "$pid" | tr -d ' ')" "$pid"
done
[ "$(find /results/shards -name '*.json' | wc -l)" -lt 12 ] || fail "no shard was left when the node was killed"
eventually 120 are "down*" node2
eventually 600 queue_is_empty
grep -qi 'requeue.*JobId' /var/log/slurm/slurmctld.log || fail "the shard was not queued again"
flsched campaign merge results
