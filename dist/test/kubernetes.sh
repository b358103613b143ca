#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# The DaemonSet: its manifest against the schemas of Kubernetes, and in a virtual machine what its container does, with its
# capabilities and a root that is read-only.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=setup.sh
. ./setup.sh

manifest=dist/kubernetes/daemonset.yaml
wanted=1.37.0
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
trap 'exit 130' INT TERM HUP
fail() {
	printf 'FAILED: %s\n' "$*" >&2
	exit 1
}
# words NAME: the words of the manifest's first list with that name, [ONE, TWO].
words() {
	sed -n "s/^ *$1: \[\(.*\)\]$/\1/p" $manifest | head -n 1 | tr -d ',"'
}

say "checking $manifest"
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet "kubernetes-validate==$wanted" || fail "no kubernetes-validate $wanted from pip"
for version in 1.28 1.33 1.37; do
	"$folder/venv/bin/kubernetes-validate" --strict -k $version $manifest || fail "not for Kubernetes $version"
done
sed 's/drop:/dorp:/' $manifest >"$folder/wrong.yaml"
! "$folder/venv/bin/kubernetes-validate" --strict "$folder/wrong.yaml" >"$folder/log" 2>&1 || fail "a wrong manifest passes"

say "running its command in a virtual machine"
cargo build --release --locked -p flsched >&2
capabilities=$(words add | tr '[:upper:] ' '[:lower:],' | sed 's/\([a-z_]\{1,\}\)/+\1/g')
ready=$(grep -A 2 readinessProbe $manifest | sed -n 's/^ *command: \[\(.*\)\]$/\1/p' | tr -d ',')
cat >"$folder/node" <<TEXT
#!/bin/sh
set -eu
mount -o remount,ro /
if touch /new 2>/dev/null; then exit 1; fi
# Each of these is needed; without the others flsched warns.
for one in +bpf +perfmon; do
	code=0
	timeout 60 setpriv --no-new-privs --bounding-set=-all,$capabilities,-\${one#+} --inh-caps=-all $(words command) || code=\$?
	[ \$code = 1 ]
done
setpriv --no-new-privs --bounding-set=-all,$capabilities --inh-caps=-all $(words command) &
pod=\$!
tries=150
until $ready; do
	tries=\$((tries - 1))
	[ \$tries -gt 0 ]
	sleep 0.2
done
grep -E '^(CapEff|VmRSS)' /proc/\$pod/status
kill -KILL \$pod
wait \$pod || :
until grep -q disabled /sys/kernel/sched_ext/state; do
	tries=\$((tries - 1))
	[ \$tries -gt 0 ]
	sleep 0.2
done
TEXT
chmod +x "$folder/node"
target/release/flsched vm --kernel 6.18 --clock wall --include "$(command -v setpriv)" --include target/release/flsched \
	--timeout 300 -- "$folder/node" || fail "the command does not work as the manifest has it"
echo "ok: the command attaches with $capabilities alone, and the kernel goes on without it"
