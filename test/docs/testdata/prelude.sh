# What the commands of every page find: functions for the directions, and stand-ins for what would take long.

# ended N CODE WANTED notes how part N has ended, and ends the page if that is not how it should.
ended() {
	echo "$1 $2" >>"$RUN/ended"
	[ "$2" = "$3" ] || exit 0
}

# wait_for COMMAND… waits until the command succeeds, a minute at most.
wait_for() {
	local end=$((SECONDS + 60))
	until "$@" >/dev/null 2>&1; do
		[ $SECONDS -lt $end ] || { echo "never succeeded: $*" >&2; return 1; }
		sleep 0.1
	done
}

# start_node FLAGS… is orch serve in another terminal.
start_node() {
	orch serve "$@" >>"$RUN/node.log" 2>&1 &
	node=$!
	disown
	wait_for curl -sf "http://$ORCH_HTTP/readyz"
}

# stop_node is Ctrl-C there.
stop_node() {
	kill -INT "$node"
	while kill -0 "$node" 2>/dev/null; do sleep 0.05; done
}

# repository FOLDER makes a repository of git with one commit of what is in the folder.
repository() {
	mkdir -p "$1"
	git -C "$1" init -q -b main
	git -C "$1" add .
	git -C "$1" commit -q --allow-empty -m 'first'
}

# clone_of_orch makes the folder a clone of orch, as far as pages use it.
clone_of_orch() {
	cp -r "$SOURCE"/{README.md,LICENSE,Makefile,examples,clients,deploy} .
	mkdir -p docs && cp -r "$SOURCE"/docs/reference docs/
	repository .
}

# go stands for the compiler: the program is built already.
go() {
	case "$1 ${*: -1}" in
	"build ./cmd/orch") mkdir -p "$(dirname "$3")" && ln -s "$(command -v orch)" "$3" ;;
	"run "*) shift 2 && orch "$@" ;;
	*) command go "$@" ;;
	esac
}
