#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
# Runs in a clean Debian as root: installs, uses and removes what is in /packages. packages.sh calls it. Where EMULATED is
# set, programs run under QEMU's user mode, which boots no virtual machine in reasonable time.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
context() { :; }
# shellcheck source=dist/test/checks.sh
. "$(dirname "$0")/checks.sh"

apt() {
	apt-get -q -y "$@" >$log 2>&1 || fail "apt-get $*"
}
# All files but those in which dpkg, apt, man and rpm keep their own accounts.
files() {
	find / -xdev \( -path /proc -o -path /tmp -o -path /packages -o -path /root/.cache -o -path /root/.rpmdb \
		-o -path /var/lib/dpkg -o -path /var/lib/rpm -o -path /var/lib/apt -o -path /var/cache -o -path /var/log \) -prune -o -print | sort
}
# same_as FILE WHAT: the files are those of that list.
same_as() {
	files | diff "$1" - >$log || fail "$2 leaves other files than before"
	ok "$2 leaves nothing"
}

apt update
files >/tmp/before

apt install --no-install-recommends /packages/flsched_*.deb
ok "installed"
runs '[01]' sched_ext flsched doctor
runs 0 'hackbench' flsched sim --machine i7-2670qm --workload hackbench:process-pipe:1:20
runs 0 'flsched' flsched compare --on sim --machine i7-2670qm --runs 2 --schedulers eevdf,flsched --workload spin-barrier
runs 0 'flsched-attach(1)' man flsched
for page in doctor attach attach-flsched run status vm emulator compare sim sim-fuzz calibrate; do
	runs 0 SYNOPSIS man "flsched-$page"
done
# shellcheck disable=SC2016 # bash's variables; its loader's name differs between versions
runs 0 '^attach$' bash -c '. /usr/share/bash-completion/bash_completion
	{ _comp_load flsched || _completion_loader flsched; } 2>/dev/null
	complete -p flsched >/dev/null && COMP_WORDS=(flsched att) COMP_CWORD=1 && _flsched flsched att flsched &&
	echo "${COMPREPLY[@]}"'
# shellcheck disable=SC2016 # zsh's variable
runs 0 '^_flsched$' zsh -f -c 'autoload -Uz compinit && compinit -u -D && echo $_comps[flsched]'
runs 0 '^attach' env HOME=/tmp fish -c 'complete -C "flsched att"'

# Without what the package recommends and suggests: what is missing is named.
runs 1 'apt-get install rt-tests' flsched compare --on host --schedulers eevdf,batch --runs 1 --workload hackbench
runs 1 'apt-get install gcc' flsched compare --on host --schedulers eevdf,batch --runs 1 --workload libgomp:ep
runs 1 'clang' flsched compare --on host --schedulers eevdf,batch --runs 1 --workload libomp:ep
runs 125 'qemu' flsched vm -- true

# Nothing is enabled; what its user enables and changes goes with the package, the settings with a purge.
runs 1 disabled systemctl is-enabled flsched.service
runs 0 '' systemctl enable flsched.service
echo '# mine' >>/etc/default/flsched
apt install --reinstall --no-install-recommends /packages/flsched_*.deb
runs 0 mine cat /etc/default/flsched
apt remove flsched
files | grep -v '^/etc/default/flsched$' | diff /tmp/before - >$log || fail "a removal leaves more than the settings"
runs 0 mine cat /etc/default/flsched
apt purge flsched
same_as /tmp/before "a purge"

# The tarball: into /usr/local, and out again as docs/how-to/install.md says.
find /usr/local ! -type d -o -name '*flsched*' >/tmp/local
tar -C /usr/local --strip-components=1 -xf /packages/flsched-*.tar.gz
runs 0 'flsched [0-9]' /usr/local/bin/flsched --version
runs 0 '^ExecStart=/usr/local/bin/flsched' cat /usr/local/lib/systemd/system/flsched.service
tar -tf /packages/flsched-*.tar.gz | sed 's|^[^/]*|/usr/local|' | xargs rm
find /usr/local/lib/flsched /usr/local/share/doc/flsched -type d -empty -delete
find /usr/local ! -type d -o -name '*flsched*' | diff /tmp/local - >$log || fail "the tarball leaves files"
ok "the tarball comes and goes"

mkdir /tmp/full /tmp/readonly
mount -t tmpfs -o size=1M none /tmp/full
mount -t tmpfs -o ro none /tmp/readonly

# With what is recommended, and a compiler: virtual machines and all workloads that the program brings. The QEMU of Debian 12
# is too old for them, as docs/how-to/install.md says.
in_virtual_machines() {
	if grep -q VERSION_CODENAME=bookworm /etc/os-release; then
		sed -n 's/^\(deb .*\) bookworm main$/\1 bookworm-backports main/p' /etc/apt/sources.list \
			>/etc/apt/sources.list.d/backports.list
		apt update
		apt install -t bookworm-backports qemu-system-x86
	fi
	apt install /packages/flsched_*.deb gcc libc6-dev
	runs 0 '^6\.18\.' flsched vm --kernel 6.18 --clock wall -- uname -r
	runs 0 '' flsched vm -- true
	runs 0 'flsched' flsched compare --on vm --kernel 6.18 --clock wall --runs 1 --schedulers eevdf,flsched \
		--workload hackbench:process-pipe:1:20 --workload spin-barrier:4:10 --workload libgomp:ep:4:1

	# A cache that takes nothing: one line, and nothing is left.
	runs 125 'no space left in /tmp/full' env FLSCHED_CACHE=/tmp/full flsched vm --kernel 7.0 -- true
	runs 125 'set FLSCHED_CACHE to a folder you may write to' \
		env FLSCHED_CACHE=/tmp/readonly flsched vm --kernel 7.0 -- true
	find /tmp/full -type f -size +0 ! -name apt.conf ! -name debian.sources ! -name index.json >$log
	[ ! -s $log ] || fail "a full disk keeps pieces"
}
if [ -z "${EMULATED:-}" ]; then
	in_virtual_machines
else
	runs 0 '^Inst qemu-system-arm ' apt-get install --simulate /packages/flsched_*.deb
	apt install --no-install-recommends /packages/flsched_*.deb gcc libc6-dev
	runs 0 'libgomp:ep:4:1' flsched compare --on host --schedulers eevdf,batch --runs 1 --workload libgomp:ep:4:1
fi

# A full disk, and one that takes nothing, for results.
tail -c +1 /dev/zero 2>/dev/null >/tmp/full/zeros || true
runs 1 'cannot write /tmp/full/report.json: No space left on device.*; free space there' flsched compare --on sim \
	--machine i7-2670qm --runs 2 --schedulers eevdf,flsched --workload spin-barrier --json /tmp/full/report.json
[ ! -e /tmp/full/report.json ] || fail "a full disk keeps half a report"
cat >/tmp/campaign.toml <<-TEXT
	shards = 2
	[[comparison]]
	name = "barrier"
	arguments = "--on sim --machine i7-2670qm --runs 2 --schedulers eevdf,flsched --workload spin-barrier --seed 1"
TEXT
runs 1 '/tmp/full/campaign/plan.json: .*; free space there' flsched campaign plan /tmp/campaign.toml --out /tmp/full/campaign
runs 1 '/tmp/readonly/campaign: .*; choose a folder' flsched campaign plan /tmp/campaign.toml --out /tmp/readonly/campaign
runs 1 '/tmp/readonly/openmp: .*set FLSCHED_CACHE' env FLSCHED_CACHE=/tmp/readonly flsched compare --on host \
	--schedulers eevdf,batch --runs 1 --workload libgomp:ep
umount /tmp/full /tmp/readonly

apt purge flsched
find / -xdev \( -path /proc -o -path /packages -o -path /root/.cache -o -path /var \) -prune -o -name '*flsched*' -print >$log
[ ! -s $log ] || fail "a purge leaves files"
ok "a purge with all recommended packages leaves nothing"

# The .rpm, as far as a Debian can: what it asks for, the same files as in the .deb, and that it comes and goes.
apt install --no-install-recommends rpm
runs 0 'libc.so.6(GLIBC_2.34)(64bit)' rpm -qp --requires /packages/flsched-*.rpm
runs 0 '^/etc/default/flsched$' rpm -qp --configfiles /packages/flsched-*.rpm
dpkg-deb --fsys-tarfile /packages/flsched_*.deb | tar -t | sed -n 's|^\./\(.*[^/]\)$|/\1|p' |
	sed '/\/copyright$/d; s|/vendor-completions/|/site-functions/|' | sort >/tmp/deb
rpm -qp --queryformat '[%{FILEMODES:perms} %{FILENAMES}\n]' /packages/flsched-*.rpm | sed -n 's/^-[^ ]* //p' |
	sort | diff /tmp/deb - >$log || fail "the .rpm has other files than the .deb"
ok "the .rpm has the same files"
rpm -qp --queryformat '[%{FILEMODES:perms} %{FILENAMES}\n]' /packages/flsched-*.rpm | sed -n 's/^d[^ ]* //p' |
	grep -v /flsched >$log && fail "the .rpm owns folders of others"
# Where zsh has its folder in systems with rpm.
mkdir -p /usr/share/zsh/site-functions
# Debian 12's rpm installs nothing without this option, Debian 13's does not have it. A plugin of the latter wants that the
# root is a mount point.
force=--force-debian
rpm $force --version >$log 2>&1 || force=
files >/tmp/before
# shellcheck disable=SC2086 # no word if there is no such option
runs 0 '' rpm $force --noplugins --nodeps -i /packages/flsched-*.rpm
runs 0 'flsched [0-9]' flsched --version
runs 0 '' systemctl enable flsched.service
# shellcheck disable=SC2086
runs 0 '' rpm $force --noplugins --nodeps -e flsched
same_as /tmp/before "removing the .rpm"
