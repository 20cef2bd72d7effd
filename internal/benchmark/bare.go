package benchmark

import (
	"context"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/node"
)

// The bare message pattern is what orch cannot be faster than with plain messages: per task one
// conditional message for its beginning and one for its end, and in between a worker.

const bareStream = "BARE"

var payload = make([]byte, 256)

// openBare creates the stream of the bare pattern.
func openBare(ctx context.Context, nc *nats.Conn) (jetstream.JetStream, error) {
	js, err := jetstream.New(nc, jetstream.WithPublishAsyncMaxPending(8192))
	if err != nil {
		return nil, bareFault(err)
	}
	_, err = js.CreateOrUpdateStream(ctx, jetstream.StreamConfig{Name: bareStream, Subjects: []string{"bare.t.>"}, Storage: jetstream.FileStorage})
	return js, bareFault(err)
}

func bareFault(err error) error {
	if err == nil {
		return nil
	}
	return fault.Wrap(fault.Unavailable, err, "the bare message pattern failed")
}

// bareEmbedded measures the two messages of a task in one process.
func bareEmbedded(ctx context.Context, cfg Config, durability string, inFlight int) (float64, error) {
	dir, remove, err := cfg.fresh("bare")
	if err != nil {
		return 0, err
	}
	defer remove()
	server, err := bus.StartServer(ctx, bus.ServerConfig{DataDir: filepath.Join(dir, "data"), Durability: bus.Durability(durability), SyncAlways: true})
	if err != nil {
		return 0, err
	}
	defer func() { _ = server.Close(context.WithoutCancel(ctx)) }()
	c, err := server.Connect(ctx)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	js, err := openBare(ctx, c.NATS())
	if err != nil {
		return 0, err
	}
	return loop(inFlight, cfg.For, func(id int64) error { return bareTask(ctx, js, id) })
}

// bareTask writes the beginning and the end of a task.
func bareTask(ctx context.Context, js jetstream.JetStream, id int64) error {
	subject := "bare.t." + strconv.FormatInt(id, 10)
	first, err := publish(ctx, js, subject, 0)
	if err != nil {
		return err
	}
	_, err = publish(ctx, js, subject, first)
	return err
}

func publish(ctx context.Context, js jetstream.JetStream, subject string, after uint64) (uint64, error) {
	future, err := js.PublishAsync(subject, payload, jetstream.WithExpectLastSequencePerSubject(after))
	if err != nil {
		return 0, bareFault(err)
	}
	select {
	case ack := <-future.Ok():
		return ack.Sequence, nil
	case err := <-future.Err():
		return 0, bareFault(err)
	case <-ctx.Done():
		return 0, fault.From(ctx.Err())
	}
}

// loop keeps n tasks going for a time and returns how many ended per second.
func loop(n int, length time.Duration, task func(id int64) error) (float64, error) {
	var group sync.WaitGroup
	var next, count atomic.Int64
	var failure atomic.Pointer[error]
	began := time.Now()
	end := began.Add(length)
	for range n {
		group.Go(func() {
			for time.Now().Before(end) && failure.Load() == nil {
				if err := task(next.Add(1)); err != nil {
					failure.CompareAndSwap(nil, &err)
					return
				}
				count.Add(1)
			}
		})
	}
	group.Wait()
	if err := failure.Load(); err != nil {
		return 0, *err
	}
	return float64(count.Load()) / time.Since(began).Seconds(), nil
}

// bareProcesses measures a server, a worker and a driver: the driver publishes the beginning of a
// task, the worker is handed it, publishes its end and tells the driver.
func bareProcesses(ctx context.Context, cfg Config, durability string, inFlight int) (float64, error) {
	dir, remove, err := cfg.fresh("bare")
	if err != nil {
		return 0, err
	}
	defer remove()
	stop, err := cfg.spawn(ctx, dir, durability, RoleBareServer, RoleBareWorker)
	if err != nil {
		return 0, err
	}
	defer stop()
	c, err := bus.Dial(ctx, bus.DialConfig{DataDir: filepath.Join(dir, "data")})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	nc := c.NATS()
	js, err := openBare(ctx, nc)
	if err != nil {
		return 0, err
	}
	return loop(inFlight, cfg.For, func(id int64) error {
		subject := "bare.t." + strconv.FormatInt(id, 10)
		seq, err := publish(ctx, js, subject, 0)
		if err != nil {
			return err
		}
		msg := nats.NewMsg("bare.work")
		msg.Data = []byte(subject + " " + strconv.FormatUint(seq, 10))
		_, err = nc.RequestMsgWithContext(ctx, msg)
		return bareFault(err)
	})
}

func bareServer(ctx context.Context, cfg node.Config, ready func(string)) error {
	server, err := bus.StartServer(ctx, bus.ServerConfig{DataDir: cfg.DataDir, Durability: bus.Durability(cfg.Durability), SyncAlways: true})
	if err != nil {
		return err
	}
	ready(server.Addr())
	<-ctx.Done()
	return server.Close(context.WithoutCancel(ctx))
}

func bareWorker(ctx context.Context, cfg node.Config, ready func(string)) error {
	c, err := bus.Dial(ctx, bus.DialConfig{DataDir: cfg.DataDir})
	if err != nil {
		return err
	}
	defer c.Close()
	nc := c.NATS()
	js, err := openBare(ctx, nc)
	if err != nil {
		return err
	}
	_, err = nc.Subscribe("bare.work", func(m *nats.Msg) { go bareCall(ctx, js, m) })
	if err != nil {
		return bareFault(err)
	}
	if err := nc.Flush(); err != nil {
		return bareFault(err)
	}
	ready("worker")
	<-ctx.Done()
	return nil
}

// bareCall is the worker's half of a task.
func bareCall(ctx context.Context, js jetstream.JetStream, m *nats.Msg) {
	var subject string
	var seq uint64
	for i, b := range m.Data {
		if b == ' ' {
			subject = string(m.Data[:i])
			seq, _ = strconv.ParseUint(string(m.Data[i+1:]), 10, 64)
			break
		}
	}
	if _, err := publish(ctx, js, subject, seq); err == nil {
		_ = m.Respond(nil)
	}
}
