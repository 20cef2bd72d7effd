package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pause"
)

const (
	// openPages is the number of pages whose streams are open.
	openPages = 100
	// pagesEach is the number of pages of one identity. The node permits 32.
	pagesEach = 25
	// pagesLoad is the load beside them in tasks a second. Each task has two commits.
	pagesLoad = 500
	// windowsEach is how many times as many windows as other figures are measured. The cost of the pages is a small part of that of the load,
	// whose cost changes slowly with what else the machine does.
	windowsEach = 4
)

// uiStreams measures the CPU time that the streams of open pages cost a node under load: windows with the streams are compared with windows
// without them, alternately.
func uiStreams(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	dir, remove, err := l.fresh("ui")
	if err != nil {
		return nil, err
	}
	defer remove()
	server, err := l.serve(ctx, dir, durability, "--http", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer server.stop()
	w, err := l.newWatching(ctx, dir, server)
	if err != nil {
		return nil, err
	}
	defer w.hangUp()
	return w.underLoad(ctx, l)
}

// watching is a node with pages that follow its tasks.
type watching struct {
	server *child
	owner  api.API
	hangUp func()
	plan   json.RawMessage
	url    string
	tokens []string

	// done counts the tasks that have ended.
	done atomic.Int64
	// without and with are the CPU time of the node in seconds for the tasks of a second, rates the tasks in a second, and bytes what a
	// page received in a second.
	without, with, rates, bytes []float64
}

// newWatching connects to a node, and makes the tokens of its pages.
func (c Config) newWatching(ctx context.Context, dir string, server *child) (*watching, error) {
	var announced struct{ Page string }
	if err := json.Unmarshal([]byte(server.announced), &announced); err != nil {
		return nil, fault.Wrap(fault.ExecFailed, err, "the node does not say where its page is")
	}
	page, err := url.Parse(announced.Page)
	if err != nil {
		return nil, fault.Wrap(fault.ExecFailed, err, "the node does not say where its page is")
	}
	w := &watching{server: server, url: page.JoinPath("../api/v1/events").String()}
	if w.plan, err = helloPlan(); err != nil {
		return nil, err
	}
	for i := range openPages / pagesEach {
		token, err := c.token(ctx, dir, fmt.Sprintf("page-%d", i))
		if err != nil {
			return nil, err
		}
		w.tokens = append(w.tokens, token)
	}
	w.owner, w.hangUp, err = dial(ctx, dir)
	return w, err
}

// token makes a token of a viewer.
func (c Config) token(ctx context.Context, dir, name string) (string, error) {
	args := []string{"token", "create", name, "--role", "viewer", "--data-dir", filepath.Join(dir, "data"), "-o", "json"}
	out, err := exec.CommandContext(ctx, c.Program, args...).Output()
	if err != nil {
		return "", fault.Wrap(fault.ExecFailed, err, "a token of the benchmark cannot be made")
	}
	var made struct{ Secret string }
	if err := json.Unmarshal(out, &made); err != nil {
		return "", fault.Wrap(fault.ExecFailed, err, "a token of the benchmark cannot be read")
	}
	return made.Secret, nil
}

// underLoad measures the windows beside a steady load.
func (w *watching) underLoad(ctx context.Context, l *benchRun) ([]Row, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	load := newSteady(pagesLoad, w.task)
	ended := make(chan error, 1)
	go func() { ended <- load.run(ctx, time.Hour, func(time.Duration) error { return nil }) }()
	if err := w.windows(ctx, l); err != nil {
		return nil, err
	}
	select {
	case err := <-ended:
		return nil, err
	default:
	}
	return w.rows(), nil
}

// task runs one task.
func (w *watching) task(ctx context.Context) error {
	task, err := w.owner.Submit(ctx, api.SubmitRequest{Plan: w.plan})
	if err != nil {
		return err
	}
	if err = await(ctx, w.owner, task); err == nil {
		w.done.Add(1)
	}
	return err
}

// windows measures windows without and with streams.
func (w *watching) windows(ctx context.Context, l *benchRun) error {
	length := 2 * l.Duration
	if err := pause.For(ctx, length); err != nil { // the node warms up
		return err
	}
	for range windowsEach * l.Runs {
		alone, err := w.window(ctx, length)
		if err != nil {
			return err
		}
		pages, err := openPageStreams(ctx, w.url, w.tokens)
		if err != nil {
			return err
		}
		if err := pause.For(ctx, time.Second); err != nil {
			return err
		}
		before := pages.received.Load()
		watched, err := w.window(ctx, length)
		if err != nil {
			return err
		}
		received := pages.received.Load() - before
		if err := pages.close(); err != nil {
			return err
		}
		w.without, w.with = append(w.without, alone), append(w.with, watched)
		w.bytes = append(w.bytes, float64(received)/openPages/length.Seconds())
	}
	return nil
}

// window returns the CPU time of the node in seconds for the tasks of a second. A busy machine that runs fewer tasks in a second than
// pagesLoad does not make them cheaper.
func (w *watching) window(ctx context.Context, length time.Duration) (float64, error) {
	cpu, done, began := cpuOf(w.server.pid()), w.done.Load(), time.Now()
	if err := pause.For(ctx, length); err != nil {
		return 0, err
	}
	tasks := float64(max(w.done.Load()-done, 1))
	w.rates = append(w.rates, tasks/time.Since(began).Seconds())
	return (cpuOf(w.server.pid()) - cpu).Seconds() / tasks * pagesLoad, nil
}

func (w *watching) rows() []Row {
	costs := make([]float64, len(w.with))
	for i := range costs {
		costs[i] = 100 * (w.with[i] - w.without[i])
	}
	name := fmt.Sprintf("%d open pages at %.0f commits/s, %.0f KiB/s each; the node without them: %.0f %%",
		openPages, 2*median(w.rates), median(w.bytes)/1024, 100*median(w.without))
	row := figure("ui-streams", name, "% of a core", costs)
	row.Value = max(row.Value, 0) // less is the noise of the machine
	return []Row{row}
}
