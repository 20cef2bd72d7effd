package main

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// Kind implements river.JobArgs.
func (job) Kind() string { return "bench" }

type riverClient struct {
	*river.Client[pgx.Tx]

	pool *pgxpool.Pool
}

func (c riverClient) submit(ctx context.Context, j job, delay time.Duration) error {
	_, err := c.Insert(ctx, j, riverOptions(j, delay))
	return err
}

func riverOptions(j job, delay time.Duration) *river.InsertOpts {
	o := &river.InsertOpts{}
	if delay > 0 {
		o.ScheduledAt = time.Now().Add(delay)
	}
	if j.ID == idleID {
		o.Queue = idle
	}
	return o
}

func (c riverClient) submitMany(ctx context.Context, jobs []job) error {
	params := make([]river.InsertManyParams, len(jobs))
	for i, j := range jobs {
		params[i].Args, params[i].InsertOpts = j, riverOptions(j, 0)
	}
	_, err := c.InsertManyFast(ctx, params)
	return err
}

func (c riverClient) close() { c.pool.Close() }

// riverPeer returns the peer River with PostgreSQL. A job counts as finished when River reports its completion, which is
// committed by then. cooldown is the minimum time between two fetches of a worker; 0 means River's default.
func riverPeer(o options, name string, cooldown time.Duration) peer {
	open := func(ctx context.Context, cfg *river.Config) (riverClient, error) {
		pool, err := riverPool(ctx, o.postgresURL())
		if err != nil {
			return riverClient{}, err
		}
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
		c, err := river.NewClient(riverpgxv5.New(pool), cfg)
		return riverClient{c, pool}, err
	}
	return peer{
		name: name, server: postgresServer(o),
		prepare: func(ctx context.Context) error { return riverPrepare(ctx, o.postgresURL()) },
		dial:    func(ctx context.Context) (client, error) { return open(ctx, &river.Config{}) },
		work: func(ctx context.Context, ready func(), done func(int64)) error {
			w := &riverWorker{}
			workers := river.NewWorkers()
			river.AddWorker(workers, w)
			c, err := open(ctx, &river.Config{
				Workers: workers, FetchCooldown: cooldown,
				Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: concurrency}},
			})
			if err != nil {
				return err
			}
			defer c.close()
			w.client = c
			return riverWork(ctx, c, ready, done)
		},
	}
}

func riverPool(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.MaxConns = 24
	return pgxpool.NewWithConfig(ctx, cfg)
}

func riverPrepare(ctx context.Context, url string) error {
	pool, err := riverPool(ctx, url)
	if err != nil {
		return err
	}
	defer pool.Close()
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	_, err = pool.Exec(ctx, "TRUNCATE river_job")
	return err
}

// riverWork runs a worker and calls done for each completed job.
func riverWork(ctx context.Context, c riverClient, ready func(), done func(int64)) error {
	events, cancel := c.SubscribeConfig(&river.SubscribeConfig{Kinds: []river.EventKind{river.EventKindJobCompleted}, ChanSize: 100_000})
	defer cancel()
	if err := c.Start(ctx); err != nil {
		return err
	}
	ready()
	for {
		select {
		case e := <-events:
			var j job
			if json.Unmarshal(e.Job.EncodedArgs, &j) == nil && j.Steps == 0 {
				done(j.ID)
			}
		case <-ctx.Done():
			return nil
		}
	}
}

type riverWorker struct {
	river.WorkerDefaults[job]

	client client
}

// Work implements river.Worker.
func (w *riverWorker) Work(ctx context.Context, r *river.Job[job]) error {
	if r.Args.Steps == 0 {
		return nil
	}
	return w.client.submit(ctx, job{ID: r.Args.ID, Steps: r.Args.Steps - 1}, 0)
}
