package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/agents/peer"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/wholefile"
)

func newAgentRun(c *agentCommands) *cobra.Command {
	var o agentRunOptions
	cmd := &cobra.Command{
		Use:   "run --name NAME [flags] --exec -- PROGRAM [argument...]",
		Short: "Be an agent whose calls a program makes",
		Long: `Be an agent until interrupted: claim calls of AGENT_TASK that are for it, run a program for each, and report how
that ended. The first interrupt or SIGTERM drains it: no new calls are taken, and the programs that run have the time
of --drain to end. With the second one they are killed, their calls are given back, and the exit code is 130.

The program reads the arguments of the call as a JSON object on its standard input; ORCH_TASK, ORCH_STEP, ORCH_ATTEMPT,
ORCH_KEY and ORCH_AGENT tell which call it is, and ORCH_URL with ORCH_TOKEN let it speak to the node as the agent.
TRACEPARENT is the position of the call in the trace of its task. What it prints is the result: as JSON if it is, else as
text. An exit status other than 0 is an error, with the end of what it said on its standard error. A status of 75 gives
the call back to others, if its effect is idempotent.

The first time, the agent is registered with the credential of the operator; its own is kept in ~/.orch/agents/NAME.json
and renewed there. Who it is does not change afterwards: to give it other capabilities, remove it first (orch agents
remove NAME). With --credential FILE nothing but that file is needed, and the node may be elsewhere.`,
		Example: "  orch agent run --name builder --type developer --capability build --exec -- ./build.sh",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.recordSet(cmd.Flags())
			if err := o.checkRun(cmd.Flags()); err != nil {
				return err
			}
			return c.runAgent(cmd.Context(), o, args)
		},
	}
	o.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.name, "name", "", "its name: 3 to 50 letters, digits, - and _")
	f.StringVar(&o.credential, "credential", "", "the file of its credential (default ~/.orch/agents/NAME.json)")
	f.StringVar(&o.url, "url", "", "where the node serves HTTP, as http://HOST:PORT without a path (default: where it is found, or was)")
	f.IntVar(&o.concurrency, "concurrency", 0, "how many programs run at the same time, 1 and above (default --max-tasks)")
	f.DurationVar(&o.drain, "drain", 10*time.Second, "how long running programs may go on after a stop, more than 0")
	f.Bool("exec", true, "run the program that follows")
	return cmd
}

func (c *agentCommands) runAgent(ctx context.Context, o agentRunOptions, argv []string) error {
	if len(argv) == 0 {
		return fault.New(fault.RequiredField, "no program is named").WithField("--exec").WithHint("orch agent run --name builder --exec -- ./build.sh")
	}
	if err := checkProgram(argv[0]); err != nil {
		return err
	}
	file, err := o.file(c.cfg.Home)
	if err != nil {
		return err
	}
	if o.credential == "" { // calls that a killed process has started
		if _, err := c.replaceCredential(file); err != nil {
			return err
		}
	}
	cred, err := readCredential(file, c.now())
	switch {
	case errors.Is(err, fs.ErrNotExist) && o.credential == "":
		cred, err = c.enrol(ctx, o, file)
	case err == nil:
		cred, err = c.sameAgent(ctx, o, file, cred)
	}
	if err != nil {
		return err
	}
	unlock, err := lockAgent(ctx, file, cred)
	if err != nil {
		return err
	}
	defer unlock()
	if cred.URL = cmp.Or(o.url, cred.URL); cred.URL == "" {
		if cred.URL, err = c.findNode(ctx, o, cred); err != nil {
			return err
		}
	}
	return c.executeCalls(ctx, o, file, cred, argv)
}

// executeCalls executes calls until ctx ends, and then the remaining ones.
func (c *agentCommands) executeCalls(ctx context.Context, o agentRunOptions, file string, cred peer.Credential, argv []string) error {
	cut, end := c.interruptedTwice()
	defer end()
	log := c.logger()
	p, err := peer.New(peer.Config{
		Credential: cred, Handler: program{argv: argv, name: cred.Name, url: cred.URL, token: func() string { return currentSecret(file, cred) }, cut: cut}.execute,
		Concurrency: o.concurrency, Drain: o.drain, Cut: cut, Save: func(cred peer.Credential) error { return saveCredential(file, cred) }, Logger: log,
	})
	if err != nil {
		return err
	}
	c.note("%s takes calls of %s; stop with Ctrl-C", cred.Name, cred.URL)
	defer context.AfterFunc(ctx, func() {
		c.note("stopping: what runs has %s to end, and is given back then; Ctrl-C again gives it back at once", o.drain)
	})()
	err = stopped(ctx, o.credentialError(p.Run(ctx), file))
	select {
	case <-cut:
		if err == nil {
			return &exitError{exit: exitDetached}
		}
	default:
	}
	return err
}

// interruptedTwice returns a channel that is closed by the second interrupt or SIGTERM after the call. A third one ends the
// process.
func (c *agentCommands) interruptedTwice() (twice <-chan struct{}, end func()) {
	signals, second, done := make(chan os.Signal, 2), make(chan struct{}), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	var group sync.WaitGroup
	group.Go(func() {
		defer signal.Stop(signals)
		for range 2 {
			select {
			case <-signals:
			case <-done:
				return
			}
		}
		c.note("interrupted again: the programs are killed, and their calls given back")
		close(second)
	})
	return second, func() { close(done); group.Wait() }
}

// credentialError returns the error for a credential that the node no longer accepts.
func (o agentRunOptions) credentialError(err error, file string) error {
	if !fault.Has(err, fault.Unauthorized) && !fault.Has(err, fault.TokenExpired) {
		return err
	}
	e := *fault.From(err)
	e.Hint = "the agent was removed; run this again with --capability to register it again"
	if o.credential != "" {
		e.Hint = "the agent was removed, or " + file + " is an older credential; register it again: orch agents register NAME -o json > " + file
	}
	return &e
}

// lockAgent acquires a lock that prevents another process from running as the same agent. Two such processes would each consider
// the calls of the other one lost. On systems without file locks, it does nothing.
func lockAgent(ctx context.Context, file string, cred peer.Credential) (unlock func(), err error) {
	const patience = 2 * time.Second // another process with the lock may be stopping
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	unlock, err = wholefile.Lock(ctx, filepath.Join(filepath.Dir(file), "."+filepath.Base(file)+".lock"))
	switch {
	case err == nil:
		return unlock, nil
	case ctx.Err() != nil:
		return nil, fault.New(fault.Conflict, "another process is the agent %s", cred.Name).WithHint("register another agent, or stop that one")
	default:
		return func() {}, nil
	}
}

// file returns the path of the credential file.
func (o agentRunOptions) file(home string) (string, error) {
	switch {
	case o.credential != "":
		return o.credential, nil
	case o.name == "":
		return "", fault.New(fault.RequiredField, "is missing").WithField("--name").WithHint("give the agent a name, or --credential FILE")
	case filepath.Base(o.name) != o.name:
		return "", fault.New(fault.InvalidFormat, "%q is not a valid name of an agent", o.name).WithField("--name")
	}
	return filepath.Join(home, ".orch", "agents", o.name+".json"), nil
}

// enrol registers the agent and stores its credential.
func (c *agentCommands) enrol(ctx context.Context, o agentRunOptions, file string) (cred peer.Credential, err error) {
	if err := o.check(o.name, "--name"); err != nil {
		return cred, err
	}
	s, err := c.dialSoon(ctx)
	if err != nil {
		return cred, err
	}
	err = useSession(ctx, s, func(s session) error {
		if cred, err = c.register(ctx, s, o.name, o.registerOptions); err != nil {
			return err
		}
		cred.URL = c.servedSoon(ctx, s, cred)
		return saveCredential(file, cred) // the secret cannot be retrieved again, so it is saved first
	})
	if err == nil && cred.URL == "" {
		err = noHTTP()
	}
	return cred, err
}

// readCredential reads a credential file. It treats an expired credential like a missing file.
func readCredential(file string, now time.Time) (peer.Credential, error) {
	var cred peer.Credential
	content, err := os.ReadFile(file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return cred, fault.Wrap(fault.NotFound, err, "there is no credential in "+file).WithHint("orch agents register NAME -o json > FILE")
		}
		return cred, fault.Wrap(fault.CodeOf(err), err, "the credential cannot be read").WithField(file)
	}
	if json.Unmarshal(content, &cred) != nil || cred.Secret == "" { // the cause might quote the content
		return cred, fault.New(fault.InvalidFormat, "this is not the credential of an agent").WithField(file)
	}
	if !cred.ExpiresAt.IsZero() && !now.Before(cred.LatestExpiry()) {
		return cred, fault.Wrap(fault.TokenExpired, fs.ErrNotExist, "the credential has expired").WithField(file).WithHint("register the agent again: orch agents register")
	}
	return cred, nil
}

// saveCredential writes a credential, readable by the user only.
func saveCredential(file string, c peer.Credential) error {
	content, err := json.MarshalIndent(c, "", "  ") //nolint:gosec // the only place where the secret is written
	if err == nil {
		err = os.MkdirAll(filepath.Dir(file), 0o700)
	}
	if err == nil {
		err = wholefile.Replace(file, append(content, '\n'), 0o600)
	}
	if err != nil {
		return fault.Wrap(fault.CodeOf(err), err, "the credential cannot be kept").WithField(file)
	}
	return nil
}

// currentSecret returns the secret in the credential file, which may have been renewed since the start; first is the fallback.
func currentSecret(file string, first peer.Credential) string {
	content, err := os.ReadFile(file)
	var c peer.Credential
	if err != nil || json.Unmarshal(content, &c) != nil || c.Agent != first.Agent {
		return first.Secret
	}
	return c.Secret
}

// program executes calls by running a program.
type program struct {
	argv []string
	// name is the name of the agent, url the URL of the node.
	name, url string
	token     func() string
	// cut is closed to kill the running programs at once.
	cut <-chan struct{}
}
