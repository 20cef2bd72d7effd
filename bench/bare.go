package bench

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
)

// The bare message pattern is the minimal implementation of tasks with plain NATS messages, without orch. It publishes one
// conditional message for the start of a task and one for the end of each step; in between it sends a request to a worker.
// With durability fsync its NATS server syncs every message. With durability relaxed it syncs like the server of a node.

const (
	bareStream  = "BARE"
	bareSubject = "bare.t."
	bareWork    = "bare.work"
	barePayload = 256 // bytes
)

// startBareServer starts a NATS server on a directory.
func startBareServer(dir, durability string) (*server.Server, error) {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: filepath.Join(dir, "bare"),
		NoSigs: true, NoLog: true, SyncAlways: durability == "fsync", SyncInterval: bus.RelaxedEvery,
	})
	if err != nil {
		return nil, bareFault(err)
	}
	s.Start()
	const within = 10 * time.Second
	if !s.ReadyForConnections(within) {
		return nil, fault.New(fault.Unavailable, "the server of the bare message pattern does not start")
	}
	return s, nil
}

// bareClient publishes the messages of the pattern.
type bareClient struct {
	nc   *nats.Conn
	js   jetstream.JetStream
	next atomic.Int64
	data []byte
}

func newBareClient(ctx context.Context, url string, options ...nats.Option) (*bareClient, error) {
	nc, err := nats.Connect(url, options...)
	if err != nil {
		return nil, bareFault(err)
	}
	b := &bareClient{nc: nc, data: make([]byte, barePayload)}
	b.js, err = jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(8192))
	if err == nil {
		_, err = b.js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{
			Name: bareStream, Subjects: []string{bareSubject + ">"}, Storage: jetstream.FileStorage,
		})
	}
	if err != nil {
		nc.Close()
		return nil, bareFault(err)
	}
	return b, nil
}

func bareFault(err error) error {
	if err == nil {
		return nil
	}
	return fault.Wrap(fault.Unavailable, err, "the bare message pattern failed")
}

func (b *bareClient) subject() string {
	return bareSubject + strconv.FormatInt(b.next.Add(1), 10)
}

func (b *bareClient) send(subject string, after uint64) (jetstream.PubAckFuture, error) {
	return b.js.PublishAsync(subject, b.data, jetstream.WithExpectLastSequencePerSubject(after))
}

func acked(ctx context.Context, future jetstream.PubAckFuture) (uint64, error) {
	select {
	case ack := <-future.Ok():
		return ack.Sequence, nil
	case err := <-future.Err():
		return 0, bareFault(err)
	case <-ctx.Done():
		return 0, fault.From(ctx.Err())
	}
}

func (b *bareClient) publish(ctx context.Context, subject string, after uint64) (uint64, error) {
	future, err := b.send(subject, after)
	if err != nil {
		return 0, bareFault(err)
	}
	return acked(ctx, future)
}

// startTasks publishes the start messages of n tasks.
func (b *bareClient) startTasks(ctx context.Context, n int) error {
	return b.publishTasks(ctx, n, 1)
}

// publishTasks publishes so many messages for each of n tasks, without running a step.
func (b *bareClient) publishTasks(ctx context.Context, n, messages int) error {
	subjects, after, futures := make([]string, n), make([]uint64, n), make([]jetstream.PubAckFuture, n)
	for i := range subjects {
		subjects[i] = b.subject()
	}
	for range messages {
		for i, subject := range subjects {
			var err error
			if futures[i], err = b.send(subject, after[i]); err != nil {
				return bareFault(err)
			}
		}
		for i, f := range futures {
			var err error
			if after[i], err = acked(ctx, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// withBare calls do with a client of a server in this process, on a directory.
func withBare(ctx context.Context, dir string, do func(*bareClient) error) error {
	s, err := startBareServer(dir, "relaxed")
	if err != nil {
		return err
	}
	defer func() { s.Shutdown(); s.WaitForShutdown() }()
	b, err := newBareClient(ctx, "", nats.InProcessServer(s))
	if err != nil {
		return err
	}
	defer b.nc.Close()
	return do(b)
}

// system returns the pattern as a system under test. step runs one step of a task. after is the position of the task's
// newest message; step returns the new position.
func (b *bareClient) system(children []*child, stop func(), step func(ctx context.Context, subject string, after uint64) (uint64, error)) *system {
	once := func(ctx context.Context, w workload) (int, error) {
		if w.batch > 0 {
			return w.batch, b.startTasks(ctx, w.batch)
		}
		subject := b.subject()
		seq, err := b.publish(ctx, subject, 0)
		for range w.steps {
			if err == nil {
				seq, err = step(ctx, subject, seq)
			}
		}
		return 1, err
	}
	return &system{once: once, children: children, stop: stop}
}

// bareEmbedded runs the pattern in one process, without a worker.
func bareEmbedded(ctx context.Context, _ Config, dir, durability string) (*system, error) {
	s, err := startBareServer(dir, durability)
	if err != nil {
		return nil, err
	}
	end := func() { s.Shutdown(); s.WaitForShutdown() }
	b, err := newBareClient(ctx, "", nats.InProcessServer(s))
	if err != nil {
		end()
		return nil, err
	}
	return b.system(nil, func() { b.nc.Close(); end() }, b.publish), nil
}

// bareProcesses runs the pattern with a server process, a worker process and this process as the driver.
func bareProcesses(ctx context.Context, c Config, dir, durability string) (*system, error) {
	children, err := c.spawnAll(ctx, dir, durability, RoleBareServer, RoleBareWorker)
	if err != nil {
		return nil, err
	}
	b, err := dialBare(ctx, dir)
	if err != nil {
		endAll(children)
		return nil, err
	}
	step := func(ctx context.Context, subject string, after uint64) (uint64, error) {
		m := nats.NewMsg(bareWork)
		m.Data = []byte(subject + " " + strconv.FormatUint(after, 10))
		reply, err := b.nc.RequestMsgWithContext(ctx, m)
		if err != nil {
			return 0, bareFault(err)
		}
		seq, err := strconv.ParseUint(string(reply.Data), 10, 64)
		return seq, bareFault(err)
	}
	return b.system(children, func() { b.nc.Close(); endAll(children) }, step), nil
}

func bareAddress(dir string) string { return filepath.Join(dir, "bare.url") }

func dialBare(ctx context.Context, dir string) (*bareClient, error) {
	url, err := os.ReadFile(bareAddress(dir))
	if err != nil {
		return nil, bareFault(err)
	}
	return newBareClient(ctx, string(url))
}

// bareServer runs the server process.
func bareServer(ctx context.Context, dir, durability string, ready func(string)) error {
	s, err := startBareServer(dir, durability)
	if err != nil {
		return err
	}
	if err := os.WriteFile(bareAddress(dir), []byte(s.ClientURL()), 0o600); err != nil {
		return bareFault(err)
	}
	ready("server")
	<-ctx.Done()
	s.Shutdown()
	s.WaitForShutdown()
	return nil
}

// bareWorker runs the worker process, which publishes the end of each requested step.
func bareWorker(ctx context.Context, dir string, ready func(string)) error {
	b, err := dialBare(ctx, dir)
	if err != nil {
		return err
	}
	defer b.nc.Close()
	if _, err = b.nc.Subscribe(bareWork, func(m *nats.Msg) { go b.call(ctx, m) }); err == nil {
		err = b.nc.Flush()
	}
	if err != nil {
		return bareFault(err)
	}
	ready("worker")
	<-ctx.Done()
	return nil
}

// call runs a step in the worker and answers the request of the driver. If the step fails, it does not answer, so that the
// request ends with an error.
func (b *bareClient) call(ctx context.Context, m *nats.Msg) {
	subject, after, _ := strings.Cut(string(m.Data), " ")
	seq, err := strconv.ParseUint(after, 10, 64)
	if err == nil {
		seq, err = b.publish(ctx, subject, seq)
	}
	if err == nil {
		_ = m.Respond(strconv.AppendUint(nil, seq, 10))
	}
}
