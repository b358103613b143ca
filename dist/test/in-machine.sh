#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs in a virtual machine: boots a Debian with systemd as process 1 of a PID namespace, once for each list of parts.
# service.sh calls it: in-machine.sh PART,PART,… PART,… <TARBALL
set -eu

root=/debian
mkdir "$root"
mount -t tmpfs -o size=90% none "$root"
tar -C "$root" -x --warning=no-unknown-keyword
mkdir "$root/test"
cp target/packages/flsched_*.deb dist/test/in-systemd.sh dist/test/checks.sh "$root/test"
cp /boot/config-* "$root/boot" 2>/dev/null || true # a kernel given as a file has none
echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
cat >"$root/etc/systemd/system/test.service" <<-TEXT
	[Unit]
	Description=Test
	SuccessAction=poweroff
	FailureAction=poweroff
	[Service]
	Type=exec
	ExecStart=/bin/bash /test/in-systemd.sh
	StandardOutput=file:/test/out
	StandardError=inherit
TEXT
mkdir -p "$root/etc/systemd/system/multi-user.target.wants"
# What has nothing to do with the service, and takes an emulated machine minutes.
for unit in getty.target systemd-journal-catalog-update.service ldconfig.service systemd-user-sessions.service \
	apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer fstrim.timer man-db.timer systemd-tmpfiles-clean.timer; do
	ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
ln -s ../test.service "$root/etc/systemd/system/multi-user.target.wants"
# What the unit prints leaves the namespace by this pipe, which is never at its end.
mkfifo "$root/test/out"
exec 3<>"$root/test/out"
cat <&3 &

state=$(cat /sys/kernel/sched_ext/state 2>/dev/null || true)
for parts in "$@"; do
	echo "--- a boot: $parts"
	echo "$parts" | tr , "\n" >"$root/test/parts"
	rm -f "$root/test/passed"
	# shellcheck disable=SC2016 # the inner shell's
	unshare --mount --pid --fork sh -c 'cd "$1" && mount --move . / && exec chroot . /lib/systemd/systemd' sh "$root" || true
	# systemd has left it read-only.
	mount -o remount,rw "$root"
	if [ ! -e "$root/test/passed" ]; then
		echo "FAILED: $parts"
		exit 1
	fi
	[ "$(cat /sys/kernel/sched_ext/state 2>/dev/null || true)" = "$state" ] || {
		echo "FAILED: $parts leaves a scheduler attached after systemd has ended"
		exit 1
	}
done
sleep 1 # until all is printed
