// Command workerprotocol checks that a node speaks the worker protocol: it plays the dialogues in the folder dialogues, which also
// show implementers of workers what is sent. With -try it checks a worker: it plays the node. See docs/reference/worker-protocol.md.
package main

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/orch-dev/orch/fault"
)

//go:embed dialogues
var dialogues embed.FS

func main() {
	url := flag.String("url", "http://127.0.0.1:7424", "where the node serves HTTP")
	operator := flag.String("operator", os.ExpandEnv("$HOME/.orch/data/mcp.token"), "file with the token of an operator")
	worker := flag.String("worker", "", "file with the secret of a registered agent that has the capability conform")
	only := flag.String("only", "*", "names of dialogues or rules, as a glob")
	try := flag.Bool("try", false, "check the worker that the arguments start: COMMAND [ARG…]")
	flag.Parse()
	if *try {
		exit(tryWorker(flag.Args(), *only))
	}
	exit(check(context.Background(), os.Stdout, *url, map[string]string{"operator": *operator, "worker": *worker}, *only))
}

// exit ends the process; with status 1 if there is an error.
func exit(err error) {
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1) //nolint:forbidigo // main calls this last
	}
	os.Exit(0) //nolint:forbidigo // main calls this last
}

func tryWorker(command []string, only string) error {
	if len(command) == 0 {
		return fault.New(fault.RequiredField, "-try needs the command that starts the worker")
	}
	return checkWorker(context.Background(), os.Stdout, command, only, usualPatience)
}

// check plays the dialogues whose names match a glob, with the tokens in files, and writes a line about each of them.
func check(ctx context.Context, w io.Writer, url string, secrets map[string]string, only string) error {
	tokens := map[string]string{"nobody": ""}
	for who, file := range secrets {
		secret, err := os.ReadFile(file)
		if err != nil {
			return fault.Wrap(fault.ValidationError, err, "the token cannot be read").WithField(who)
		}
		tokens[who] = strings.TrimSpace(string(secret))
	}
	files, err := fs.Glob(dialogues, "dialogues/"+only+".txtar")
	if err != nil || len(files) == 0 {
		return fault.New(fault.NotFound, "there is no dialogue %s", only)
	}
	failed := 0
	for _, file := range files {
		text, err := dialogues.ReadFile(file)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(path.Base(file), ".txtar")
		if err := play(ctx, url, tokens, text); err != nil {
			failed++
			_, _ = fmt.Fprintf(w, "FAIL %s: %v\n", name, err)
			continue
		}
		_, _ = fmt.Fprintf(w, "ok   %s\n", name)
	}
	if failed > 0 {
		return fault.New(fault.ToolFailed, "%d of %d dialogues have failed", failed, len(files))
	}
	return nil
}
