# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-only
# What prolog, epilog and task-prolog share: where a job's state is kept, and how its scheduler is stopped.
# Slurm gives their scripts no PATH. Every command that could wait for another program has a time limit.
PATH=${PATH:+$PATH:}/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
LC_ALL=C
export PATH LC_ALL
umask 022

# One file for each fact, named after the job:
#   JOB       settings, which flsched@JOB.service reads: there as long as the job may have a scheduler
#   JOB.pid   without systemd: the process, and when it was started
#   JOB.log   without systemd: what the process has printed
#   JOB.why   why the job has no scheduler: task-prolog prints it
folder=/run/flsched
job=${SLURM_JOB_ID:-}

# For the administrators of the node; for the user it goes into JOB.why.
say() {
	logger -t flsched-slurm -- "job $job: $*" 2>/dev/null || printf 'flsched: job %s: %s\n' "$job" "$*" >&2
}

has_systemd() {
	[ -d /run/systemd/system ]
}

# started PID: when the process was started. With it a process is known again, whose number alone may by now be another's.
started() {
	cut -d ' ' -f 22 "/proc/$1/stat" 2>/dev/null
}

# is_alive JOB: whether the job's process or service runs.
is_alive() {
	if has_systemd; then
		timeout -k 5 10 systemctl --quiet is-active "flsched@$1.service"
	else
		pid='' start=''
		[ ! -f "$folder/$1.pid" ] || read -r pid start <"$folder/$1.pid"
		[ -n "$pid" ] && [ "$(started "$pid")" = "$start" ]
	fi
}

# waits_for SECONDS COMMAND…: until the command succeeds, at most for so long.
waits_for() {
	tries=$(($1 * 10))
	shift
	until "$@"; do
		tries=$((tries - 1))
		[ "$tries" -gt 0 ] || return 1
		sleep 0.1
	done
}

# is_dead JOB: whether it has ended. If systemd does not answer, it may still run.
is_dead() {
	if has_systemd; then
		case $(timeout -k 5 10 systemctl is-active "flsched@$1.service" 2>/dev/null) in
		inactive | failed) ;;
		*) return 1 ;;
		esac
	else
		! is_alive "$1"
	fi
}

# reason JOB: why flsched has ended: its last message, with the lines indented below it.
reason() {
	if has_systemd; then
		timeout -k 5 10 journalctl --quiet --output cat --lines 100 --unit "flsched@$1.service" 2>/dev/null
	else
		cat "$folder/$1.log" 2>/dev/null
	fi | awk 'sub(/^(flsched|error): /, "") { why = $0; next } why && sub(/^  +/, "; ") { why = why $0 } END { if (why) print why }'
}

# stop_scheduler JOB: and removes what is kept of the job. If that fails, its settings stay for the next one to try.
stop_scheduler() {
	if has_systemd; then
		timeout -k 5 20 systemctl stop "flsched@$1.service" 2>/dev/null ||
			timeout -k 5 10 systemctl kill --signal KILL "flsched@$1.service" 2>/dev/null
		timeout -k 5 10 systemctl reset-failed "flsched@$1.service" 2>/dev/null
		is_dead "$1" || return
	else
		if is_alive "$1"; then
			kill -s TERM "$pid" 2>/dev/null
			waits_for 10 is_dead "$1" || kill -s KILL "$pid" 2>/dev/null
		fi
		waits_for 5 is_dead "$1" || return
	fi
	rm -f "$folder/$1" "$folder/$1".*
	rmdir "$folder" 2>/dev/null || :
}
