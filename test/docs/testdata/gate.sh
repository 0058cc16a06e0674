#!/bin/bash
# bash gate.sh SERVER: fails with the status of rdmaperf, 3 if a limit is missed
server=$1
on() { "$@"; }    # for another host: on() { ssh "$server" "$@"; }

gate() {    # gate VERB bw|lat OPTIONS...: both ends get the same
	local name=$1-$2 rc
	on timeout 60 rdmaperf "$@" &
	rdmaperf "$@" --json-file "$name.json" "$server"; rc=$?
	wait
	[ "$rc" = 0 ] || return "$rc"
	if [ "$2" = bw ] && [ -e "$name.good" ]; then
		rdmaperf compare --tolerance 99% "$name.good" "$name.json" || return
	fi
	cp "$name.json" "$name.new" && mv "$name.new" "$name.good"
}

rc=0
gate write bw --min-bw "${MIN_BW:-0.1}" || rc=$?
gate send lat --max-p99 100000 || rc=$?
rdmaperf report -o report.html ./*.json
exit "$rc"
