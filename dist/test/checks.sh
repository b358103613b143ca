# SPDX-License-Identifier: GPL-2.0-only
# shellcheck shell=sh
# Sourced by the tests that run in a Debian of their own: how they check and report. Before it, `context` is defined: it
# prints what helps to understand a failure.
log=/tmp/log

ok() { printf 'ok: %s\n' "$*"; }
fail() {
	printf 'FAILED: %s\n' "$*"
	cat $log
	context
	exit 1
}
# runs CODE WORDS COMMAND…: the command ends with this code, a pattern, and prints these words, a regular expression.
runs() {
	wanted=$1 words=$2
	shift 2
	code=0
	"$@" >$log 2>&1 || code=$?
	# shellcheck disable=SC2254 # a pattern
	case $code in $wanted) ;; *) fail "$* ends with $code instead of $wanted" ;; esac
	[ -z "$words" ] || grep -q -e "$words" $log || fail "$* does not print: $words"
	ok "$(printf %s "$*" | head -n 1)"
}
