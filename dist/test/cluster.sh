# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Sourced by the tests that run in a Debian with Slurm: a cluster on one machine. Before it, `fail` is defined.
log=/tmp/log

# eventually SECONDS COMMAND…: the command succeeds within so long.
eventually() {
	tries=$(($1 * 5))
	shift
	until "$@" >$log 2>&1; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || fail "not within the time: $*"
		sleep 0.2
	done
}

# prepare HOST: the machine's name and address, which is none of 127.0.0.0/8, as Slurm would look for another; munge's
# key; the folders.
prepare() {
	ip link set lo up
	ip address add 192.0.2.1/32 dev lo
	hostname "$1"
	echo "192.0.2.1 $1" >>/etc/hosts
	mkdir -p /etc/slurm /var/log/slurm /var/spool/slurmctld /run/munge
	head -c 1024 /dev/urandom >/etc/munge/munge.key
	chown -R munge: /etc/munge /run/munge
	chmod 0400 /etc/munge/munge.key
}

start_munge() {
	setpriv --reuid munge --regid munge --clear-groups munged
}

# without_systemd: slurmd does not ask a systemd for its cgroup.
without_systemd() {
	echo IgnoreSystemd=yes >/etc/slurm/cgroup.conf
}

# settings HOST: of slurm.conf, what a cluster of one slow machine needs.
settings() {
	cat <<-TEXT
		ClusterName=test
		SlurmctldHost=$1(192.0.2.1)
		ProctrackType=proctrack/linuxproc
		TaskPlugin=task/none
		JobAcctGatherType=jobacct_gather/none
		SlurmdParameters=config_overrides
		SelectType=select/cons_tres
		SelectTypeParameters=CR_CPU
		StateSaveLocation=/var/spool/slurmctld
		SlurmctldLogFile=/var/log/slurm/slurmctld.log
		SlurmdLogFile=/var/log/slurm/%n.log
		MpiDefault=none
	TEXT
}
