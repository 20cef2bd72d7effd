#!/bin/sh
# Five agents share 200 tasks that depend on each other, and write to each other. One is killed while it has calls, one hangs
# and comes back.
# All tasks end, and what changes something is begun once. It needs orch and curl, takes about a minute, and leaves
# nothing behind but a directory in TMPDIR, whose name it prints.
#
#   examples/network/run.sh            # with the orch of PATH
#   ORCH=bin/orch TASKS=40 examples/network/run.sh
set -eu
here=$(cd "$(dirname "$0")" && pwd)
orch=${ORCH:-orch} tasks=${TASKS:-200}
orch=$(command -v "$orch") || { printf '%s is not in PATH; name it: ORCH=bin/orch %s\n' "${ORCH:-orch}" "$0" >&2; exit 1; }
case $orch in /*) ;; *) orch=$PWD/$orch ;; esac
dir=$(mktemp -d "${TMPDIR:-/tmp}/orch-network.XXXXXX")
mkdir "$dir/root" "$dir/home"
export HOME="$dir/home" ORCH_DATA_DIR="$dir/data" ORCH_ROOT="$dir/root" LEDGER="$dir/ledger" LOSES=ada ORCH_HTTP=auto
: >"$LEDGER"
say() { printf '%s\n' "$*"; }
soon() { # waits until a command succeeds
	for _ in $(seq 1200); do "$@" >/dev/null 2>&1 && return; sleep 0.1; done
	say "this took too long: $*" >&2
	exit 1
}
begun() { [ "$(grep -c "^begun $1 " "$LEDGER")" -ge "$2" ]; }

"$orch" serve --http 127.0.0.1:0 2>"$dir/serve.log" & pids=$!
trap 'kill -CONT $pids 2>/dev/null || :; kill $pids 2>/dev/null || :; wait' EXIT
soon grep -q 'MCP clients find it' "$dir/serve.log" # without a node that runs, each command would start its own

agent() { # name type capability…
	name=$1 type=$2
	shift 2
	for can in "$@"; do set -- "$@" --capability "$can"; shift; done
	"$orch" agent run --name "$name" --type "$type" --max-tasks 4 "$@" --exec -- "$here/agent.sh" 2>"$dir/$name.log" &
	pids="$pids $!"
	eval "$name=$!"
}
agent ada researcher research
agent bob developer build research
agent cyd specialist build
agent dee analyst analyse
agent eve coordinator analyse research
soon sh -c '[ "$('"$orch"' agents -o json | grep -c "\"idle\"")" -eq 5 ]'
say "five agents:"
"$orch" agents

# Of four tasks the last one needs the first and the third.
line() { printf '{"plan_file":"%s","inputs":{"can":"%s","number":%d},"depends_on":[%s]}\n' "$here/$1.yaml" "$2" "$3" "${4:-}"; }
for i in $(seq 1 4 "$tasks"); do line look research "$i"; line make build $((i + 1)); line look analyse $((i + 2)); done >"$dir/first.jsonl"
"$orch" submit -f "$dir/first.jsonl" --detach -q -o name >"$dir/ids"
number=4
while read -r a && read -r _ && read -r c; do line make build "$number" "\"$a\",\"$c\""; number=$((number + 4)); done <"$dir/ids" >"$dir/second.jsonl"
"$orch" submit -f "$dir/second.jsonl" --detach -q -o name >>"$dir/ids"
say "$(wc -l <"$dir/ids") tasks"

soon begun ada 1
kill -9 "$ada"
say "ada is killed"
soon begun eve 1
kill -STOP "$eve"
say "eve hangs"
soon sh -c '[ "$('"$orch"' list --all --name look --state DONE -o name | wc -l)" -ge '$((tasks / 4))' ]'
kill -CONT "$eve"
say "eve is back"
while read -r id; do "$orch" result "$id" -o json >/dev/null; done <"$dir/ids"

twice=$(sed -n 's/^begun [a-z]* //p' "$LEDGER" | sort | uniq -d)
wrong=0
for key in $twice; do
	[ "$("$orch" get "${key%/*}" -o json | grep -c '"name": *"make"')" -eq 0 ] || wrong=$((wrong + 1))
done
say "$("$orch" list --all --name look --state DONE -o name | wc -l) looked, $("$orch" list --all --name make --state DONE -o name | wc -l) made"
say "$(printf '%s' "$twice" | grep -c .) calls were begun again after their agent was lost, $wrong of them changed something"
say "$("$orch" list --all --name MESSAGE_SEND --state DONE -o name | wc -l) messages were sent"
for name in bob cyd dee eve; do say "$name has done $(grep -c "^done $name " "$LEDGER")"; done
if [ -n "$twice" ]; then
	say "who did what, of one that was begun again:"
	"$orch" history "$(printf '%s' "$twice" | head -n 1 | sed 's,/.*,,')"
else # those that were lost had nothing to do
	say "who did what, of one:"
	"$orch" history "$(head -n 1 "$dir/ids")"
fi
"$orch" agents
say "kept in $dir"
[ "$wrong" -eq 0 ]
