package crash_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	settings "github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/failpoint"
	"github.com/orch-dev/orch/internal/goroutines"
	"github.com/orch-dev/orch/internal/pause"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/rpc"
	"github.com/orch-dev/orch/test/crash"
)

// The environment of the processes that the test starts from its own binary.
const (
	envRole = "CRASH_ROLE"
	envDir  = "CRASH_DIR"
	// envCall is the effect that a child process of a tool writes to the ledger.
	envCall = "CRASH_CALL"
	// envTrap is a failpoint and its pass, at which the process dies while it starts.
	envTrap = "CRASH_TRAP"
	// envToil is set for workers with long calls that have child processes.
	envToil = "CRASH_TOIL"
	// envSecret contains the secret that must not appear anywhere.
	envSecret = "CRASH_TOKEN"

	// envData is the name of the data directory of the node, envNATS the external server that it uses, envHTTP is set
	// when it serves agents.
	envData = "CRASH_DATA"
	envNATS = "CRASH_NATS"
	envHTTP = "CRASH_HTTP"
	// envModels is the address of the provider of models, envModelsKey its credential.
	envModels    = "CRASH_MODELS"
	envModelsKey = "CRASH_MODELS_KEY"
	// envBudgets are the budgets of the node, as JSON.
	envBudgets = "CRASH_BUDGETS"
	// envStandby is set for a node that is one of two.
	envStandby = "CRASH_STANDBY"
	// envAgent is the credential of an agent.
	envAgent = "CRASH_AGENT"
	// envBroker is the configuration of a NATS server.
	envBroker = "CRASH_BROKER"

	roleNode   = "node"
	roleWorker = "worker"
	roleChild  = "child"
	roleAgent  = "agent"
	roleBroker = "broker"
)

const (
	// operator is the identity of the clients' credential.
	operator = "user:submitter"
	// lease is short, so that lost workers are noticed within a round.
	lease = time.Second
	// overrun is longer than the five seconds after which the children of a stopped worker have ended.
	overrun = 7 * time.Second
	// archiveAfter is short, so that tasks are archived while processes die.
	archiveAfter = 5 * time.Second
	// workerSlots is the number of calls that a worker runs at the same time.
	workerSlots = 32
	// toilSlots is the same for workers with long calls that have child processes: with more of them the machine would
	// be overloaded.
	toilSlots = 8
)

func TestMain(m *testing.M) {
	role := os.Getenv(envRole)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := play(role); err != nil {
		fmt.Fprintln(os.Stderr, "the "+role+" ends:", err)
		for cause := errors.Unwrap(err); cause != nil; cause = errors.Unwrap(cause) {
			fmt.Fprintln(os.Stderr, "because of:", cause)
		}
		os.Exit(1)
	}
	os.Exit(0)
}

// play is the main program of a child process.
func play(role string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	arm(os.Getenv(envTrap))
	if role == roleNode || role == roleWorker {
		go func() {
			if err := reportGaps(ctx, os.Getenv(envDir)); err != nil {
				fmt.Fprintln(os.Stderr, "gaps are not noted:", err)
			}
		}()
	}
	switch role {
	case roleNode:
		return playNode(ctx, stop)
	case roleWorker:
		return playWorker(ctx, stop)
	case roleChild:
		return playChild(ctx)
	case roleAgent:
		return playAgent(ctx, stop)
	case roleBroker:
		return playBroker(ctx, stop)
	default:
		return fault.New(fault.ValidationError, "there is no role %q", role)
	}
}

func config(dir string, logs io.Writer) node.Config {
	return node.Config{
		DataDir: filepath.Join(dir, cmp.Or(os.Getenv(envData), "data")), Root: dir, Operator: operator, Limits: node.Limits{Lease: lease, Overrun: overrun, ArchiveAfter: archiveAfter},
		Logger: slog.New(slog.NewTextHandler(logs, nil)), Extra: effects(dir), Storage: node.Storage{NATSURL: os.Getenv(envNATS)},
		Tools: settings.Tools{NetAllow: []string{"127.0.0.1"}},
	}
}

// printLine prints a line for the test.
func printLine(line string) error {
	_, err := os.Stdout.WriteString(line + "\n")
	return err
}

func playNode(ctx context.Context, stop func()) error {
	cfg := config(os.Getenv(envDir), os.Stderr)
	cfg.Worker.Concurrency, cfg.Worker.OwnTools = -1, true // for the models of agents
	cfg.Models.Providers = map[string]settings.ModelProvider{"bill": {Wire: "openai", URL: os.Getenv(envModels), Key: "env:" + envModelsKey}}
	cfg.Models.Prices = map[string]settings.ModelPrice{"bill/*": billedPrice()}
	if text := os.Getenv(envBudgets); text != "" {
		if err := json.Unmarshal([]byte(text), &cfg.Models.Budgets); err != nil {
			return err
		}
	}
	if os.Getenv(envHTTP) != "" {
		cfg.Faces.HTTP = "127.0.0.1:0"
	}
	if cfg.Storage.NATSURL != "" {
		cfg.Storage.Replicas = brokerCount
	}
	if os.Getenv(envStandby) != "" {
		return playStandby(ctx, stop, cfg)
	}
	n, err := node.Start(ctx, cfg)
	for end := time.Now().Add(startWithin / 2); cfg.Storage.NATSURL != "" && fault.Has(err, fault.Unavailable) && time.Now().Before(end); {
		_ = pause.For(ctx, 10*retryEvery) // as its supervisor would, while the servers have no leader
		n, err = node.Start(ctx, cfg)
	}
	if err != nil {
		return err
	}
	end, err := servePeople(ctx, n, cfg)
	if err != nil {
		return errors.Join(err, n.Stop(ctx))
	}
	defer end()
	if err := printLine("ready " + n.FaceURL()); err != nil {
		return errors.Join(err, n.Stop(ctx))
	}
	go answer(stop)
	<-ctx.Done()
	return n.Stop(context.WithoutCancel(ctx))
}

// peoplePrefix is the subject prefix of message requests of people, who have no credentials in this test.
const peoplePrefix = "crash.people"

// servePeople serves message requests of readers and senders under the identity in the request, like a face in the
// process of the node.
func servePeople(ctx context.Context, n *node.Node, cfg node.Config) (end func(), err error) {
	d := bus.DialConfig{Name: "people", URL: cfg.Storage.NATSURL}
	if d.URL == "" {
		d.DataDir = cfg.DataDir
	}
	c, err := bus.Dial(ctx, d)
	if err != nil {
		return nil, err
	}
	methods := map[string]rpc.Method{}
	for _, name := range []string{"send", "inbox", "ack", "group"} {
		methods[name] = func(ctx context.Context, request []byte) ([]byte, error) {
			var answer json.RawMessage
			err := n.Ask(ctx, bus.MessagesPrefix+"."+name, json.RawMessage(request), &answer)
			return answer, err
		}
	}
	if _, err := rpc.Serve(c, peoplePrefix, methods, rpc.EndpointConfig{}); err != nil {
		c.Close()
		return nil, err
	}
	return c.Close, nil
}

// playStandby runs one of two nodes: one is active, the other one is on standby.
func playStandby(ctx context.Context, stop func(), cfg node.Config) error {
	cfg.Limits.Lease = 3 * lease // longer than a node may be parted without losing its own
	for {
		err := node.Serve(ctx, cfg, drainWithin, func(bus.Holder) {}, func(string, string) {
			if printLine("ready") != nil {
				stop()
			}
			go answer(stop)
		})
		if !fault.Has(err, fault.Unavailable) || pause.For(ctx, 10*retryEvery) != nil { // as its supervisor would
			return err
		}
	}
}

// playWorker runs a worker; one that finds no node tries again.
func playWorker(ctx context.Context, stop func()) error {
	cfg := config(os.Getenv(envDir), os.Stderr)
	cfg.Worker.Concurrency = workerSlots
	if os.Getenv(envToil) != "" {
		cfg.Worker.Concurrency = toilSlots
	}
	if err := printLine("ready"); err != nil {
		return err
	}
	go answer(stop)
	for {
		err := node.RunWorker(ctx, cfg)
		if !fault.Has(err, fault.Unavailable) || pause.For(ctx, 20*time.Millisecond) != nil {
			return err
		}
	}
}

// answer serves the requests of the test on standard input. "stats" releases unused memory and is answered with the
// number of goroutines, without idle ones of pools; "stacks" with the quoted stacks; "arm <failpoint> <pass>" with
// "armed". It stops the process when the test has ended.
func answer(stop func()) {
	defer stop()
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		if printLine(reply(in.Text())) != nil {
			return
		}
	}
}

func reply(request string) string {
	if trap, ok := strings.CutPrefix(request, "arm "); ok {
		arm(trap)
		return "armed"
	}
	if request == "stacks" {
		return strconv.Quote(goroutines.Stacks())
	}
	debug.FreeOSMemory()
	return strconv.Itoa(goroutines.Held())
}

// arm arms "<failpoint> <pass>"; other text arms nothing.
func arm(trap string) {
	point, pass, _ := strings.Cut(trap, " ")
	if n, err := strconv.Atoi(pass); err == nil {
		failpoint.Arm(failpoint.Point(point), int64(n))
	}
}

// playChild runs the child process of a tool: it takes long enough to be alive when its worker dies.
func playChild(ctx context.Context) error {
	e := crash.Effect{}
	if _, err := fmt.Sscan(os.Getenv(envCall), &e.Tool, &e.Task, &e.Step, &e.Attempt, &e.Key, &e.PID); err != nil {
		return err
	}
	if e.Tool == crash.ToolVerified {
		return toil(ctx, os.Getenv(envDir), e)
	}
	return perform(ctx, os.Getenv(envDir), e, 50*time.Millisecond, 150*time.Millisecond)
}

// perform writes the begin and, after a random delay, the end of an effect.
func perform(ctx context.Context, dir string, e crash.Effect, shortest, longest time.Duration) (err error) {
	ledger, err := crash.OpenLedger(ledgerPath(dir))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ledger.Close()) }()
	e.Phase, e.At = crash.Begin, time.Now()
	if err := ledger.Append(e); err != nil {
		return err
	}
	if pause.For(ctx, shortest+rand.N(longest-shortest)) != nil {
		return ctx.Err()
	}
	e.Phase, e.At = crash.End, time.Now()
	return ledger.Append(e)
}

func ledgerPath(dir string) string { return filepath.Join(dir, "ledger") }
