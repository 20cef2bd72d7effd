package corrupt_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/events/eventstest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
)

// The roles of child processes, in the environment of the test's own program.
const (
	envRole = "ORCH_CORRUPT_ROLE"
	envDir  = "ORCH_CORRUPT_DIR"
	// roleBuild fills a data directory through a node, and stops it; roleHang does the same and waits to be
	// killed.
	roleBuild = "build"
	roleHang  = "hang"
	// roleSmall creates a store of a few kilobytes.
	roleSmall = "small"
	// roleProbe opens a data directory, uses it, and prints the outcome.
	roleProbe = "probe"
)

// maxData bounds the memory of a probe in bytes: a damaged number must not be allocated by.
const maxData = 1 << 30

func TestMain(m *testing.M) {
	role := os.Getenv(envRole)
	if role == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if err := play(role, os.Getenv(envDir)); err != nil {
		fmt.Fprintln(os.Stderr, "the "+role+" ends:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func play(role, dir string) error {
	ctx := context.Background()
	if role != roleProbe {
		return build(ctx, dir, role)
	}
	limit := syscall.Rlimit{Cur: maxData, Max: maxData}
	const dataSegment = 2 // RLIMIT_DATA
	if err := syscall.Setrlimit(dataSegment, &limit); err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(probe(ctx, dir))
}

// greet ends immediately; wait stays open.
const (
	greet = "orch: v1\nname: greet\ninputs: {type: object, properties: {text: {type: string}}}\nsteps: [{id: a, set: {n: 1}}]\n"
	wait  = "orch: v1\nname: wait\nsteps: [{id: a, wait: {signal: go, timeout: 1h}}]\n"
)

// build creates a store with live and archived histories in several blocks, one of them compressed, large values,
// checkpoints and the list of paused queues and tools.
func build(ctx context.Context, dir, role string) error {
	root := dir + ".root"
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	n, err := node.Start(ctx, node.Config{DataDir: dir, Root: root, Storage: node.Storage{Durability: string(bus.Relaxed)}, Worker: node.Worker{Concurrency: -1}})
	if err != nil {
		return err
	}
	content := amounts{many: 160, few: 20, inline: 60 << 10, large: 70 << 10}
	if role == roleSmall {
		content = amounts{many: 3, few: 1, inline: 60, large: 300}
	}
	if err := content.fill(ctx, n.API()); err != nil {
		return errors.Join(err, n.Stop(ctx))
	}
	if role != roleHang {
		return n.Stop(ctx)
	}
	fmt.Println("built")
	return n.Wait()
}

// amounts are the numbers of tasks in a store, and the sizes of their inputs.
type amounts struct{ many, few, inline, large int }

func (a amounts) fill(ctx context.Context, owner api.API) error {
	for i := range a.many {
		if _, err := submit(ctx, owner, greet, noise(i, a.inline)); err != nil {
			return err
		}
	}
	for i := range a.few {
		if _, err := submit(ctx, owner, greet, noise(i, a.large)); err != nil {
			return err
		}
	}
	if _, err := owner.Archive(ctx, api.ArchiveRequest{Wait: time.Minute}); err != nil {
		return err
	}
	for i := range a.few {
		if _, err := submit(ctx, owner, greet, noise(i, a.large+i)); err != nil {
			return err
		}
		id, err := submit(ctx, owner, wait, "")
		if err == nil {
			_, err = owner.Checkpoint(ctx, api.CheckpointRequest{Task: id, Name: "before", State: json.RawMessage(`{"x":1}`)})
		}
		if err == nil {
			_, err = owner.Pause(ctx, api.PauseRequest{Queue: fmt.Sprint("q", i), Reason: "test", Actor: "user:test"})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func submit(ctx context.Context, owner api.API, plan, text string) (events.TaskID, error) {
	r := api.SubmitRequest{Actor: "user:test"}
	var err error
	if r.Plan, err = json.Marshal(plan); err != nil {
		return "", err
	}
	if text != "" {
		if r.Inputs, err = json.Marshal(map[string]string{"text": text}); err != nil {
			return "", err
		}
	}
	reply, err := owner.Submit(ctx, r)
	return reply.ID, err
}

// noise is text that does not compress away.
func noise(seed, size int) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		sum := sha256.Sum256(fmt.Append(nil, seed, i))
		b.WriteString(hex.EncodeToString(sum[:]))
	}
	return b.String()[:size]
}

// outcome is the result of a probe.
type outcome struct {
	// Refused is the error that the start or the first append ended with, Stage where.
	Stage   string     `json:"stage"`
	Refused string     `json:"refused,omitempty"`
	Code    fault.Code `json:"code,omitempty"`
	// Positions of the appends that were accepted.
	Positions []uint64 `json:"positions,omitempty"`
	// Problems are those that the checks named, After is the code that an append got afterwards.
	Problems []bus.Problem `json:"problems,omitempty"`
	After    fault.Code    `json:"after,omitempty"`
	// Mended is damage that was named before the start mended it.
	Mended []bus.Problem `json:"mended,omitempty"`
	// Lost is what the start reported as lost.
	Lost *bus.Lost `json:"lost,omitempty"`
	// Last is the newest position before the probe appended, Content the hash of everything by its name.
	Last    uint64            `json:"last"`
	Content map[string]string `json:"content,omitempty"`
}

// The stages of a probe at which damage can be noticed.
const (
	atStart  = "start"
	atOpen   = "open"
	atVerify = "verify"
	atRead   = "read"
	atEnd    = "end"
)

func probe(ctx context.Context, dir string) outcome {
	o := outcome{Stage: atStart}
	files, err := bus.Inspect(ctx, dir)
	if err != nil {
		return o.refused(err)
	}
	o.Mended = files.Mended
	server, err := bus.StartServer(ctx, bus.ServerConfig{DataDir: dir, Durability: bus.Relaxed})
	if err != nil {
		o.Problems = files.Problems
		return o.refused(err)
	}
	defer func() { _ = server.Close(ctx) }() // the outcome is known by then
	o.Stage = atOpen
	conn, err := server.Connect(ctx)
	if err != nil {
		return o.refused(err)
	}
	defer conn.Close()
	store, err := conn.OpenStore(ctx, bus.StoreConfig{})
	if err != nil {
		return o.refused(err)
	}
	defer func() { _ = store.Close(ctx) }()
	return o.use(ctx, store)
}

func (o outcome) refused(err error) outcome {
	o.Refused, o.Code = err.Error(), fault.CodeOf(err)
	return o
}

// use does what a node does after its start, and then verifies the store.
func (o outcome) use(ctx context.Context, store *bus.Store) outcome {
	status, err := store.Status(ctx)
	if err != nil {
		return o.refused(err)
	}
	o.Last = status.Last
	if status.Refusing != nil {
		o.After = appendOne(store, &eventstest.Chain{Task: events.NewTaskID(time.Now())}, nil)
		return o.refused(status.Refusing)
	}
	fresh := eventstest.NewChain()
	if code := appendOne(store, fresh, &o.Positions); code != "" {
		o.Refused = "an append was refused"
		o.Code = code
		return o
	}
	o.Stage = atVerify
	report, err := store.Verify(ctx, nil)
	if err != nil {
		return o.refused(err)
	}
	o.Lost = report.Lost
	if report.Found > 0 {
		o.Problems = report.Problems
		o.After = appendOne(store, fresh, nil)
		return o
	}
	o.Stage = atRead
	if o.Content, err = content(ctx, store, fresh.Task); err != nil {
		return o.refused(err)
	}
	if code := appendOne(store, fresh, &o.Positions); code != "" {
		o.Refused, o.Code = "a second append was refused", code
		return o
	}
	o.Stage = atEnd
	return o
}

// appendOne appends the next commit of a chain and returns the code of the error.
func appendOne(store *bus.Store, c *eventstest.Chain, positions *[]uint64) fault.Code {
	r := c.Next(&testing.T{}, "node")
	seq, err := eventstest.Append(store, r)
	if err != nil {
		return fault.CodeOf(err)
	}
	c.Accept(r, seq)
	if positions != nil {
		*positions = append(*positions, seq)
	}
	return ""
}

// content reads everything except one task: histories, large values, checkpoints, and what is paused.
func content(ctx context.Context, store *bus.Store, but events.TaskID) (map[string]string, error) {
	all := map[string]string{}
	for _, heads := range []func(context.Context) func(func(events.Head, error) bool){
		func(ctx context.Context) func(func(events.Head, error) bool) { return store.Heads(ctx) },
		func(ctx context.Context) func(func(events.Head, error) bool) { return store.ArchivedHeads(ctx) },
	} {
		for h, err := range heads(ctx) {
			if err == nil && h.Task != but {
				err = readTask(ctx, store, h, all)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	holds, err := store.Load(ctx, "TASK_00000000000000000000000000", "holds")
	all["holds"] = sumOf(holds)
	return all, err
}

func readTask(ctx context.Context, store *bus.Store, h events.Head, all map[string]string) error {
	name := string(h.Task)
	for c, err := range store.Read(ctx, h.Task, 1) {
		if err != nil {
			return err
		}
		commit, err := events.Decode(c.Data)
		if err != nil {
			return err
		}
		all[fmt.Sprint(name, " ", commit.Rev)] = fmt.Sprint(c.Seq, " ", c.Archived, " ", sumOf(c.Data))
		for ref := range commit.Refs() {
			data, err := store.Get(ctx, ref)
			if err != nil {
				return err
			}
			all[ref] = sumOf(data)
		}
		for _, e := range commit.Events {
			if d, ok := e.Data.(*events.Checkpointed); ok {
				data, err := store.Load(ctx, h.Task, d.ID)
				if err != nil && !fault.Has(err, fault.NotFound) { // it is derived, and written in the background
					return err
				}
				all[name+" "+d.ID] = sumOf(data)
			}
		}
	}
	all[name] = fmt.Sprint(h.Seq, " ", h.Rev, " ", h.State, " ", h.Name)
	return nil
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
