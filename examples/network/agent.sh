#!/bin/sh
# What the agents of run.sh do: note that a call begins, tell the next agent of it, note that it is done.
# The call is on the standard input; orch agent run says by ORCH_… which one it is, and with what to speak to the node.
set -eu
call=$(cat)
note() { printf '%s %s %s\n' "$1" "$ORCH_AGENT" "$ORCH_KEY" >>"$LEDGER"; }
note begun
case $ORCH_AGENT in
ada) to=bob ;; bob) to=cyd ;; cyd) to=dee ;; dee) to=eve ;; *) to=ada ;;
esac
[ "$ORCH_AGENT" != "${LOSES:-}" ] || exec sleep 60 # run.sh kills this one in the midst of its calls, however few there are
sleep "${WORK:-0.05}"
# The same key is the same message, also when the call is made again. The secret stands in no argument, which others could see.
message=$(printf '{"jsonrpc":"2.0","id":1,"method":"MESSAGE_SEND","params":{"to":["agent:%s"],"type":"task","key":"%s","payload":{"did":"%s"}}}' \
	"$to" "$ORCH_KEY" "$ORCH_KEY")
printf 'header = "Authorization: Bearer %s"\n' "$ORCH_TOKEN" |
	curl -sSf -K - "$ORCH_URL/rpc" -H 'Content-Type: application/json' --data "$message" >/dev/null
note done
printf '{"told":"%s","bytes":%d}\n' "$to" "${#call}"
