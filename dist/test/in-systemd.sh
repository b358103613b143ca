#!/bin/bash
# SPDX-License-Identifier: GPL-2.0-only
# Runs as a unit of a booted Debian: the parts of the service's test that /test/parts names. in-machine.sh
# boots it; what a part leaves on the disk, those of the next boot find.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8 SYSTEMD_COLORS=0
prom=/var/lib/prometheus/node-exporter/flsched.prom

context() {
	echo "state: $(state) $(ops)"
	systemctl --no-pager --lines=0 status flsched.service 'flsched@*.service' scx.service || true
	journalctl --no-pager --lines=60
}
# shellcheck source=dist/test/checks.sh
. "$(dirname "$0")/checks.sh"
state() { cat /sys/kernel/sched_ext/state; }
ops() { cat /sys/kernel/sched_ext/root/ops 2>/dev/null || true; }
property() { systemctl show --value --property "$2" "$1"; }
is_default() { [ "$(state)" = disabled ]; }
# The kernel's name of a scheduler has its version too.
is_attached() { [[ "$(state) $(ops)" == "enabled $1_"* ]]; }
# The same, now.
scheduled_by_default() {
	is_default || fail "the default scheduler does not run the machine"
	ok "the default scheduler runs the machine"
}
scheduled_by() {
	is_attached "$1" || fail "$1 does not run the machine"
	ok "$1 runs the machine"
}
# has UNIT PROPERTY VALUE
has() { [ "$(property "$1" "$2")" = "$3" ]; }
property_like() { property "$1" "$2" | grep -q "$3"; }
flsched_has_not_failed() { [ -z "$(systemctl --failed --plain --no-legend list-units 'flsched*')" ]; }
# said UNIT WORDS: in the journal of this boot.
said() { journalctl --no-pager --quiet --boot --unit "$1" --grep "$2"; }
settings() { printf 'FLSCHED_POLICY=%s\nFLSCHED_OPTIONS=%s\n' "$1" "$2" >/etc/default/flsched; }
# soon SECONDS WHAT COMMAND…: within that time the command succeeds; a busy host gets three times as long. Each try follows
# the other without a pause, as some states last a second only.
soon() {
	limit=$(($(date +%s) + 3 * $1)) what=$2
	shift 2
	until "$@" >$log 2>&1; do
		[ "$(date +%s)" -lt "$limit" ] || fail "not in time: $what"
	done
	ok "$what"
}

# Installing enables and starts nothing.
part_install() {
	runs 0 'Setting up flsched' dpkg -i /test/flsched_*.deb
	runs '[13]' inactive systemctl is-active flsched
	runs 1 disabled systemctl is-enabled flsched
	runs 0 '' systemd-analyze verify flsched.service flsched@x.service
	[ ! -s $log ] || fail "systemd has words about the units"
}

# By hand. When systemctl returns, the kernel has enabled the scheduler.
part_start() {
	scheduled_by_default
	runs 0 '' systemctl start flsched
	scheduled_by flsched
	runs 0 'Status: "flsched .* schedules this machine"' systemctl status flsched
	runs 0 'scheduler *flsched' flsched status
	runs 0 '' systemctl stop flsched
	scheduled_by_default
	has flsched Result success || fail "a stop counts as a failure"
}

# From /etc/default/flsched, and one restart right after the other.
part_settings() {
	mkdir -p "${prom%/*}"
	runs 0 '' systemctl start flsched
	settings flsched "--slice-us 5000 --metrics $prom"
	runs 0 '' systemctl restart flsched
	runs 0 'slice_us=5000' systemctl status flsched
	scheduled_by flsched
	soon 20 "the metrics have the settings" grep '^flsched_attached{.*settings="slice_us=5000".*} 1$' $prom
	settings rr2 ""
	runs 0 '' systemctl restart flsched
	scheduled_by rr2
	[ ! -e $prom ] || fail "the metrics outlive their service"

	settings flsched "--slice-us 7"
	runs 1 'journalctl' systemctl restart flsched
	scheduled_by_default
	soon 20 "the journal says what is wrong" said flsched 'not a whole number from 1000 to'
	has flsched ExecMainStatus 2 || fail "another exit code than 2"
	has flsched NRestarts 0 || fail "wrong settings are tried again"
	settings flsched ""
	runs 0 '' systemctl restart flsched
	scheduled_by flsched
	runs 0 '' systemctl stop flsched
}

# The kernel restores the default scheduler at once; a second later the service starts again.
part_kill() {
	runs 0 '' systemctl start flsched
	runs 0 '' systemctl kill --signal=KILL --kill-whom=main flsched
	soon 10 "the default scheduler is back" is_default
	soon 60 "the service has attached flsched again" is_attached flsched
	soon 10 "it has been restarted once" has flsched NRestarts 1
	runs 0 '' systemctl stop flsched
}

# flsched itself attaches its policy again, after 1 s and then 10 s. In the pause of a minute that follows a stop ends it at once.
part_eject() {
	mkdir -p "${prom%/*}"
	settings flsched "--metrics $prom"
	runs 0 '' systemctl start flsched
	for _ in 1 2; do
		echo S >/proc/sysrq-trigger
		soon 10 "the default scheduler is back" is_default
		soon 10 "the status says why" property_like flsched StatusText 'ejected by the kernel'
		soon 60 "it is attached again" is_attached flsched
	done
	echo S >/proc/sysrq-trigger
	soon 10 "the pause is a minute" property_like flsched StatusText 'starts again in 60 s'
	soon 20 "the metrics count three" grep -q '^flsched_ejections_total 3$' $prom
	runs 0 '^flsched_attached{.*} 0$' cat $prom
	sleep 5
	scheduled_by_default
	has flsched NRestarts 0 || fail "systemd starts it again"
	runs 0 '' timeout 5 systemctl stop flsched
	scheduled_by_default
	runs 0 '' systemctl start flsched
	scheduled_by flsched
	runs 0 '' systemctl stop flsched
	settings flsched ""
}

# With settings of its own, as a batch system writes them for a job. While it runs, the machine's service is refused, and the
# other way round: neither takes the machine from the other.
part_instance() {
	mkdir -p /run/flsched
	echo 'FLSCHED_OPTIONS=--slice-us 7000' >/run/flsched/42
	runs 0 '' systemctl start flsched@42
	scheduled_by flsched
	runs 0 'slice_us=7000' systemctl status flsched@42
	runs 1 '' systemctl start flsched
	soon 20 "the journal names who is attached" said flsched 'is attached already .by flsched, pid'
	runs 0 'slice_us=7000' systemctl status flsched@42
	runs 0 '' systemctl stop flsched flsched@42
	scheduled_by_default
	# Without settings of its own it has those of /etc/default/flsched.
	settings rr2 ""
	runs 0 '' systemctl start flsched@43
	scheduled_by rr2
	runs 0 '' systemctl stop flsched@43
	settings flsched ""
	scheduled_by_default
}

# The unit that distributions bring for schedulers of sched_ext, as far as it matters here. flsched can be its scheduler; each
# of the two services stops the other.
part_scx() {
	cat >/etc/default/scx <<-'TEXT'
		SCX_SCHEDULER=flsched
		SCX_FLAGS='attach flsched --slice-us 6000'
	TEXT
	cat >/etc/systemd/system/scx.service <<-'TEXT'
		[Unit]
		ConditionPathIsDirectory=/sys/kernel/sched_ext
		[Service]
		EnvironmentFile=/etc/default/scx
		ExecStart=/bin/bash -c 'exec $SCX_SCHEDULER $SCX_FLAGS'
		Restart=on-failure
	TEXT
	systemctl daemon-reload
	runs 0 '' systemctl start flsched
	runs 0 '' systemctl start scx
	has flsched ActiveState inactive || fail "two services at a time"
	soon 60 "scx.service has attached flsched" is_attached flsched
	soon 20 "with the options of scx.service" said scx 'slice_us=6000, schedules'
	has scx NRestarts 0 || fail "scx.service did not come up at once"
	runs 0 '' systemctl start flsched
	has scx ActiveState inactive || fail "two services at a time"
	scheduled_by flsched
	runs 0 '' systemctl start scx
	soon 60 "scx.service has attached flsched" is_attached flsched
	runs 0 '' systemctl stop scx
	scheduled_by_default
}

# Enabled here, for the next part, which has a new boot.
part_enable() {
	settings flsched "--slice-us 8000"
	runs 0 '' systemctl enable flsched
	scheduled_by_default
}
part_reboot() {
	soon 60 "the boot has started the service" has flsched ActiveState active
	scheduled_by flsched
	runs 0 'slice_us=8000' systemctl status flsched
	settings flsched ""
}

# docs/how-to/beside-other-load.md: CPUs of its own.
part_cpus() {
	systemctl stop flsched
	for cpu in 0 1 2 3; do
		systemd-run --quiet --unit "hog$cpu" sh -c 'while :; do :; done'
	done
	runs 1 'no deadline server' flsched run --partial -- true
	runs 0 '' systemctl set-property --runtime system.slice AllowedCPUs=0-1
	runs 0 '' systemctl set-property --runtime user.slice AllowedCPUs=0-1
	runs 0 '' systemctl set-property --runtime init.scope AllowedCPUs=0-1
	runs 0 '^Cpus_allowed_list:.2-3$' systemd-run --scope --slice=flsched.slice -p AllowedCPUs=2-3 \
		flsched run --partial -- grep Cpus_allowed_list /proc/self/status
	scheduled_by_default
}

# A removal stops the service first.
part_remove() {
	runs 0 '' systemctl start flsched
	scheduled_by flsched
	runs 0 '' dpkg --purge flsched
	scheduled_by_default
	runs 0 '^not-found$' systemctl show --value --property LoadState flsched
	left=$(find /etc/systemd/system -name '*flsched*')
	[ -z "$left" ] || fail "a purge leaves $left"
}

# The kernel has no sched_ext: the service is not started, and that is no failure.
part_no_sched_ext() {
	[ ! -e /sys/kernel/sched_ext ] || fail "this kernel has sched_ext"
	runs 0 '' systemctl enable --now flsched
	runs 0 '^inactive$' systemctl show --value --property ActiveState flsched
	runs 0 '^no$' systemctl show --value --property ConditionResult flsched
	runs 0 '' systemctl start flsched@42
	flsched_has_not_failed || fail "the start counts as a failure"
	runs 1 'has no sched_ext' flsched attach flsched
	runs 1 'sched_ext' flsched doctor
}
part_no_sched_ext_booted() {
	soon 60 "the boot has considered the service" has flsched ConditionResult no
	flsched_has_not_failed || fail "the boot counts it as a failure"
}

mapfile -t parts </test/parts
for part in "${parts[@]}"; do
	echo "-- $part"
	# On a fast machine, the parts together start the service more often than the unit allows.
	systemctl reset-failed flsched.service 2>/dev/null || true
	"part_$part"
done
touch /test/passed
