#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# slurm-node.sh systemd|plain: runs in a virtual machine, in a Debian with Slurm, as root, below a systemd or without one.
# The machine becomes a cluster of one node, and jobs ask for schedulers. slurm.sh calls it.
set -eu
manager=$1
export LC_ALL=C.UTF-8
home=/home/alice
kernel=/sys/kernel/sched_ext
slurm=/usr/lib/flsched/slurm

fail() {
	printf 'FAILED: %s: %s\n' "$scenario" "$*"
	set +e
	{
		squeue
		sinfo --long --Node
		tail -n 20 $home/*.out /var/log/slurm/*.log
		ls -l /run/flsched
		cat $kernel/state
		cat $log
		[ "$manager" = plain ] || journalctl --no-pager --lines 50
	} 2>&1
	exit 1
}

# shellcheck source=dist/test/cluster.sh
. /cluster.sh

configure() {
	scenario=configure
	prepare node1
	useradd --create-home --shell /bin/sh alice
	mkdir -p /var/spool/slurmd
	chown slurm: /var/spool/slurmctld /var/log/slurm
	{
		# As in docs/how-to/slurm.md.
		cat <<-TEXT
			Prolog=$slurm/prolog
			Epilog=$slurm/epilog
			TaskProlog=$slurm/task-prolog
			PrologFlags=Alloc
			BatchStartTimeout=120
			NodeName=node1 NodeAddr=192.0.2.1 CPUs=4 Feature=flsched
			PartitionName=shared Nodes=node1 Default=YES
			PartitionName=whole Nodes=node1 OverSubscribe=EXCLUSIVE
			PartitionName=flsched Nodes=node1 OverSubscribe=EXCLUSIVE
		TEXT
		settings node1
		cat <<-TEXT
			SlurmUser=slurm
			SlurmdSpoolDir=/var/spool/slurmd
			ReturnToService=2
			KillWait=5
			SlurmdTimeout=20
		TEXT
	} >/etc/slurm/slurm.conf
	if [ "$manager" = plain ]; then
		without_systemd
		mkdir -p /sys/fs/cgroup/system.slice
	fi
	cat >$home/job <<-'TEXT'
		#!/bin/sh
		cd /sys/kernel/sched_ext
		echo "scheduler: $(cat state) $(cat root/ops 2>/dev/null)"
		sleep "${1:-0}"
		echo end
	TEXT
	chmod +x $home/job
}

start_slurmd() {
	if [ "$manager" = systemd ]; then
		systemctl start slurmd
	else
		slurmd "$@"
	fi >$log 2>&1 || fail "slurmd does not start"
}

# Of the job, and not the slurmstepd that keeps the cgroups of all.
kill_steps() {
	pkill -KILL -f "^slurmstepd: \[$job\."
}

start() {
	if [ "$manager" = systemd ]; then
		systemctl restart munge slurmctld
	else
		start_munge && slurmctld
	fi >$log 2>&1 || fail "slurmctld does not start"
	start_slurmd
	eventually 60 is_idle
}

is_idle() {
	[ "$(sinfo --noheader --format %T)" = idle ]
}

# submit WORDS…: a job of alice's; its number is in $job.
submit() {
	job=$(runuser -u alice -- sbatch --parsable --chdir=$home --output=%j.out "$@" 2>$log) || fail "not accepted: $*"
	out=$home/$job.out
}

has_said() {
	grep -q -e "$1" "$out"
}

says() {
	has_said "$1" || fail "job $job does not say: $1"
}

has_ended_twice() {
	[ "$(grep -c '^end$' "$out")" = 2 ]
}

# No job runs, the node has its own scheduler, and nothing is left.
is_over() {
	is_idle && [ "$(cat $kernel/state)" = disabled ] && ! [ -e /run/flsched ] && ! pgrep -x flsched && has_no_unit
}

has_no_unit() {
	[ "$manager" = plain ] || [ -z "$(systemctl list-units --all --no-legend 'flsched@*')" ]
}

has_no_jobs() {
	jobs=$(squeue --noheader) && [ -z "$jobs" ]
}

# over: all jobs and what they had are gone, soon. Then the scenario is done.
over() {
	eventually "${1:-60}" has_no_jobs
	eventually 30 is_over
	printf 'ok: %s\n' "$scenario"
}

# unscheduled REASON: the job runs all the same, and says why it has no scheduler.
unscheduled() {
	eventually 150 has_said '^end$'
	says "^flsched: node1 keeps its own scheduler for this job: .*$1"
	says '^scheduler: disabled'
	over
}

configure
start

scenario="a job with --comment=flsched has FLSCHED while it runs"
submit --exclusive --comment=flsched $home/job 2
eventually 90 has_said '^scheduler: enabled flsched'
over
says '^end$'
has_said '^flsched:' && fail "a word that the user need not read"

scenario="a job with --comment=flsched:smove among other words has Smove"
submit --exclusive --comment="project 7, flsched:smove; night" $home/job
eventually 90 has_said '^scheduler: enabled smove'
over

scenario="a job without a word is left alone"
attached=$(cat $kernel/enable_seq)
submit --exclusive --comment="not-flsched flsched2 xflsched:smove" $home/job
eventually 90 has_said '^scheduler: disabled'
over
[ "$(cat $kernel/enable_seq)" = "$attached" ] || fail "a scheduler was attached"

scenario="the constraint flsched"
submit --exclusive --constraint=flsched $home/job
eventually 90 has_said '^scheduler: enabled flsched'
over

scenario="the partition flsched"
submit --partition=flsched $home/job
eventually 90 has_said '^scheduler: enabled flsched'
over

scenario="a partition of whole nodes"
submit --partition=whole --comment=flsched:rr2 $home/job
eventually 90 has_said '^scheduler: enabled rr2'
over

scenario="a job that shares its node"
submit --comment=flsched $home/job
unscheduled '--exclusive'

scenario="an unknown policy"
submit --exclusive --comment=flsched:fast $home/job
unscheduled 'jobs may have flsched smove rr2 on this node, not fast'

scenario="a policy with other characters"
# shellcheck disable=SC2016 # to be taken as it is
submit --exclusive --comment='flsched:$(touch /tmp/taken)`touch${IFS}/tmp/taken`' $home/job
unscheduled 'letters, digits and _'
[ ! -e /tmp/taken ] || fail "a comment was executed"

scenario="a comment that looks like options"
submit --exclusive --comment='flsched:--help --version ../../etc * OverSubscribe=NO' $home/job
unscheduled 'letters, digits and _'

scenario="a cancelled job"
submit --exclusive --comment=flsched $home/job 1000
eventually 90 has_said '^scheduler: enabled'
scancel "$job"
over

scenario="two jobs and an array, one after another"
submit --exclusive --comment=flsched $home/job
first=$job
submit --exclusive --comment=flsched:smove $home/job
second=$job
submit --exclusive --array=1-3 --output=$home/array-%a.out --comment=flsched:rr2 $home/job
submit --exclusive $home/job
eventually 120 has_said '^scheduler: disabled'
over
for pair in "$first enabled flsched" "$second enabled smove" \
	"array-1 enabled rr2" "array-2 enabled rr2" "array-3 enabled rr2"; do
	out=$home/${pair%% *}.out
	says "^scheduler: ${pair#* }"
done

scenario="srun alone"
out=$home/srun.out
runuser -u alice -- srun --exclusive --comment=flsched $home/job >"$out" 2>&1
says '^scheduler: enabled flsched'
over

scenario="only the first task of the first step says why"
submit --ntasks=3 --comment=flsched --wrap 'srun true; srun true'
over
[ "$(grep -c '^flsched:' "$out")" = 1 ] || fail "said $(grep -c '^flsched:' "$out") times"
runuser -u alice -- srun --ntasks=3 --comment=flsched true >"$out" 2>&1
[ "$(grep -c '^flsched:' "$out")" = 1 ] || fail "srun has said it $(grep -c '^flsched:' "$out") times"

scenario="a requeued job"
submit --exclusive --requeue --comment=flsched $home/job 15
eventually 90 has_said '^scheduler: enabled'
scontrol requeue "$job"
eventually 30 is_over
# slurmd 22.05 forgets finished jobs at most every two seconds. Until it has, it runs no Prolog for the job.
sleep 3
scontrol update JobId="$job" StartTime=now
eventually 180 has_said '^end$'
[ "$(grep -c '^scheduler: enabled flsched' "$out")" = 1 ] || fail "not scheduled the second time"
over

scenario="flsched killed while the job runs"
submit --exclusive --comment=flsched --wrap "$home/job; until [ -e go ]; do sleep 0.2; done; $home/job"
eventually 90 has_said '^end$'
pkill -KILL -x flsched
eventually 30 grep -q disabled $kernel/state
[ "$manager" = plain ] || eventually 60 grep -q enabled $kernel/state
touch $home/go
eventually 60 has_ended_twice
if [ "$manager" = systemd ]; then
	[ "$(grep -c '^scheduler: enabled flsched' "$out")" = 2 ] || fail "systemd has not started it again"
else
	says '^scheduler: disabled'
fi
over

scenario="slurmstepd killed"
submit --exclusive --comment=flsched $home/job 1000
eventually 90 has_said '^scheduler: enabled'
kill_steps
scancel "$job"
over 120
pkill -KILL sleep

scenario="slurmd and slurmstepd killed, and slurmd started again"
submit --exclusive --no-requeue --comment=flsched $home/job 1000
eventually 90 has_said '^scheduler: enabled'
pkill -KILL -x slurmd
kill_steps
start_slurmd
# Slurm would miss the job by itself, but not before BatchStartTimeout.
scancel "$job"
over 120
pkill -KILL sleep

# With a systemd that does not reboot, its service would go on.
if [ "$manager" = plain ]; then
	scenario="a node that reboots"
	submit --exclusive --no-requeue --comment=flsched $home/job 1000
	eventually 90 has_said '^scheduler: enabled'
	pkill -KILL '^(slurmd|slurmstepd|flsched|sleep)$'
	rm -r /run/flsched
	start_slurmd -b
	scancel "$job"
	over 120
fi

scenario="a job after one whose epilog never ran"
env SLURM_JOB_ID=4711 SLURM_JOB_UID=0 SLURM_JOB_COMMENT=flsched SLURM_JOB_OVERSUBSCRIBE=NO $slurm/prolog
[ "$(cat $kernel/state)" = enabled ] || fail "not attached"
submit --exclusive $home/job
eventually 90 has_said '^scheduler: disabled'
over

scenario="a job while another one is suspended"
submit --exclusive --comment=flsched $home/job 20
eventually 90 has_said '^scheduler: enabled'
suspended=$job
scontrol suspend "$suspended"
submit --exclusive $home/job
eventually 90 has_said '^scheduler: disabled'
eventually 90 has_said '^end$'
scontrol resume "$suspended"
over 120
out=$home/$suspended.out
says '^end$'

scenario="an epilog without a prolog, a prolog without a job"
SLURM_JOB_ID=4712 $slurm/epilog || fail "the epilog failed"
SLURM_JOB_ID='../x' $slurm/epilog || fail "the epilog failed"
$slurm/epilog || fail "the epilog failed"
$slurm/prolog || fail "the prolog failed"
over

scenario="a node that has a scheduler already"
flsched attach smove 2>/dev/null &
other=$!
eventually 30 grep -q enabled $kernel/state
submit --exclusive --comment=flsched $home/job
eventually 90 has_said '^end$'
says 'keeps its own scheduler for this job: .*another scheduler: smove'
says '^scheduler: enabled smove'
eventually 30 is_idle
[ "$(cat $kernel/state)" = enabled ] || fail "the node's own scheduler was stopped"
kill $other
wait $other || :
over

scenario="a time limit"
submit --exclusive --time=1 --comment=flsched $home/job 1000
eventually 90 has_said '^scheduler: enabled'
over 150

scenario="a folder that takes nothing"
mkdir /run/flsched
mount -t tmpfs -o ro none /run/flsched
submit --exclusive --comment=flsched $home/job
eventually 90 has_said '^end$'
says '^scheduler: disabled'
eventually 60 is_idle
umount /run/flsched
rmdir /run/flsched
over

scenario="no program"
mv /usr/bin/flsched /usr/bin/flsched.away
submit --exclusive --comment=flsched $home/job
unscheduled '/usr/bin/flsched is missing'

scenario="a program that hangs"
printf '#!/bin/sh\nexec sleep 1000\n' >/usr/bin/flsched
chmod +x /usr/bin/flsched
submit --exclusive --comment=flsched $home/job
unscheduled 'did not start in time'
mv /usr/bin/flsched.away /usr/bin/flsched

scenario="a kernel without sched_ext"
mount -t tmpfs none $kernel
submit --exclusive --comment=flsched --wrap 'echo end'
eventually 90 has_said '^end$'
says 'keeps its own scheduler for this job: .*no sched_ext'
eventually 60 is_idle
umount $kernel
over

