#!/bin/sh
# PostgreSQL refuses to run as root: runs a command as nobody, unless this is another user already.
if [ "$(id -u)" = 0 ]; then
	exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"
fi
exec "$@"
