package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/node"
)

const (
	// pageCommits is the number of commits in a measured page.
	pageCommits = 100
	// pagesPerRun is the number of pages that a run reads; their median counts.
	pagesPerRun = 20
)

// longHistory is the history of one task in a directory with the data of a node, and as many messages of the bare message
// pattern beside it.
type longHistory struct {
	dir     string
	task    events.TaskID
	commits uint64
}

// page reads the commits of a history that begin at a revision.
type page func(ctx context.Context, from uint64) error

// pages measures how long a client waits for a page of a long history, over loopback TCP.
func pages(ctx context.Context, l *benchRun, durability string) ([]Row, error) {
	h, remove, err := l.longHistory(ctx, max(l.scaled(100_000), 5_000))
	if err != nil {
		return nil, err
	}
	defer remove()
	server, err := l.spawn(ctx, "server", RoleNode, h.dir, durability)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	remote, hangUp, err := dial(ctx, h.dir)
	if err != nil {
		return nil, err
	}
	defer hangUp()
	bareServer, err := l.spawn(ctx, "server", RoleBareServer, h.dir, durability)
	if err != nil {
		return nil, err
	}
	defer bareServer.stop()
	b, err := dialBare(ctx, h.dir)
	if err != nil {
		return nil, err
	}
	defer b.nc.Close()
	orch := pageOf(remote, h.task)
	cold, err := coldPage(ctx, orch, h)
	if err != nil {
		return nil, err
	}
	rows, err := l.pageRows(ctx, h, orch, b.page)
	return append([]Row{cold}, rows...), err
}

// coldPage measures the first page that a node reads after its start, once. A request that times out is repeated.
func coldPage(ctx context.Context, read page, h longHistory) (Row, error) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Minute)
	defer stop()
	began := time.Now()
	err := read(ctx, h.commits/2)
	for fault.Has(err, fault.Timeout) && ctx.Err() == nil {
		err = read(ctx, h.commits/2)
	}
	name := fmt.Sprintf("the first page of %d commits after a start, of a task of %d", pageCommits, h.commits)
	return figure("page-cold", name, "ms", []float64{millis(time.Since(began))}), err
}

func (l *benchRun) pageRows(ctx context.Context, h longHistory, orch, bare page) ([]Row, error) {
	last := h.commits - pageCommits
	var rows []Row
	for _, place := range []struct {
		name string
		from uint64
	}{{"first", 1}, {"middle", last / 2}, {"last", last}} {
		var with, without []float64
		for range l.Runs {
			for _, side := range []struct {
				read page
				runs *[]float64
			}{{orch, &with}, {bare, &without}} {
				took, err := readPages(ctx, side.read, place.from)
				if err != nil {
					return rows, err
				}
				*side.runs = append(*side.runs, took)
			}
		}
		name := fmt.Sprintf("the %s %d of %d commits of a task", place.name, pageCommits, h.commits)
		r := figure("page-"+place.name, name, "ms", with)
		r.Bare = median(without)
		r.Ratio = r.Bare / r.Value
		rows = append(rows, r)
	}
	return rows, nil
}

// readPages reads some pages and returns the median of their times in milliseconds. Each page begins a little before the
// previous one, where no reader has stopped, unless the first page begins at the first commit.
func readPages(ctx context.Context, read page, from uint64) (float64, error) {
	times := make([]float64, pagesPerRun)
	for i := range times {
		began := time.Now()
		if err := read(ctx, from); err != nil {
			return 0, err
		}
		times[i] = millis(time.Since(began))
		if from > pageCommits {
			from -= pageCommits / 7
		}
	}
	return median(times), nil
}

// pageOf reads pages of a task's history from a node.
func pageOf(remote api.API, task events.TaskID) page {
	return func(ctx context.Context, from uint64) error {
		r, err := remote.History(ctx, api.HistoryRequest{ID: task, From: from, Limit: pageCommits})
		if err == nil && len(r.Commits) != pageCommits {
			err = fault.New(fault.Internal, "a page has %d commits", len(r.Commits))
		}
		return err
	}
}

// longHistory runs a task with about n commits, and publishes as many messages for one task of the bare message pattern.
func (l *benchRun) longHistory(ctx context.Context, n int) (h longHistory, remove func(), err error) {
	h.dir, remove, err = l.fresh("pages")
	if err != nil {
		return h, nil, err
	}
	if err = l.growHistory(ctx, &h, n); err == nil {
		err = growBare(ctx, h.dir, h.commits)
	}
	if err != nil {
		remove()
		return h, nil, err
	}
	return h, remove, nil
}

func (l *benchRun) growHistory(ctx context.Context, h *longHistory, n int) error {
	const eventsPerCommit = 3
	started, err := node.Start(ctx, nodeConfig(h.dir, "relaxed"))
	if err != nil {
		return err
	}
	defer func() { _ = started.Stop(context.WithoutCancel(ctx)) }()
	if h.task, err = l.runLong(ctx, started.API(), n*eventsPerCommit); err != nil {
		return err
	}
	task, err := started.API().Get(ctx, api.GetRequest{ID: h.task})
	h.commits = task.Rev
	return err
}

// growBare publishes n messages for one task of the bare message pattern.
func growBare(ctx context.Context, dir string, n uint64) error {
	return withBare(ctx, dir, func(b *bareClient) error {
		const wave = 2000
		subject := b.subject()
		for after := range n { // nobody else publishes
			newest, err := b.send(subject, after)
			if err != nil {
				return bareFault(err)
			}
			if after%wave == 0 || after == n-1 {
				if _, err := acked(ctx, newest); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// page reads messages of the stream with a consumer of its own, like a reader that has not read before.
func (b *bareClient) page(ctx context.Context, from uint64) error {
	c, err := b.js.OrderedConsumer(ctx, bareStream, jetstream.OrderedConsumerConfig{
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
	})
	if err != nil {
		return bareFault(err)
	}
	batch, err := c.Fetch(pageCommits)
	if err != nil {
		return bareFault(err)
	}
	n := 0
	for range batch.Messages() {
		n++
	}
	if n != pageCommits {
		return fault.New(fault.Internal, "a page of the bare message pattern has %d messages", n)
	}
	return bareFault(batch.Error())
}
