#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# slurm-machine.sh systemd|plain <ROOT.tar: runs in a machine of `flsched vm`; unpacks the root, and runs slurm-node.sh there,
# below a systemd or without one.
set -eu
mkdir /node
mount -t tmpfs -o size=90% none /node
tar -x -C /node
for folder in proc sys dev boot; do
	mount -o rbind /$folder /node/$folder
done
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
if [ "$1" = plain ]; then
	exec chroot /node /slurm-node.sh plain
fi

# systemd has to be process 1, so it gets a namespace; it ends as slurm-node.sh does.
cat >/node/etc/systemd/system/slurm-node.service <<TEXT
[Unit]
Requires=basic.target
SuccessAction=exit-force
FailureAction=exit-force

[Service]
Type=oneshot
ExecStart=/slurm-node.sh systemd
StandardOutput=file:/output
StandardError=inherit
TEXT
mkfifo /node/output
cat /node/output &
# shellcheck disable=SC2016 # the inner shell's
exec unshare -p -f -m -C env -i container=flsched sh -c 'mount -t proc proc /node/proc &&
	exec chroot /node /lib/systemd/systemd --unit=slurm-node.service --show-status=no'
