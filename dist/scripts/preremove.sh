#!/bin/sh
# Before a removal, and not before an upgrade, the scheduler is stopped: the default scheduler runs the machine again.
set -e
case $1 in
remove | 0) ;;
*) exit 0 ;;
esac
if [ -d /run/systemd/system ]; then
	systemctl stop flsched.service 'flsched@*.service'
fi
if command -v systemctl >/dev/null; then
	systemctl --quiet disable flsched.service
fi
