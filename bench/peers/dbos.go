package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/dbos-inc/dbos-transact-golang/dbos"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	dbosApp      = "bench"
	dbosQueue    = "bench"
	dbosWorkflow = "bench"
)

type dbosClient struct {
	dbos.Client

	pool *pgxpool.Pool
}

func (c dbosClient) submit(_ context.Context, j job, delay time.Duration) error {
	_, err := dbos.Enqueue[int](c.Client, dbosQueueOf(j), dbosWorkflow, j, dbosDelay(delay)...)
	return err
}

func dbosQueueOf(j job) string {
	if j.ID == idleID {
		return idle
	}
	return dbosQueue
}

func dbosDelay(delay time.Duration) []dbos.EnqueueOption {
	if delay <= 0 {
		return nil
	}
	return []dbos.EnqueueOption{dbos.WithEnqueueDelay(delay)}
}

// submitMany enqueues jobs in one transaction.
func (c dbosClient) submitMany(ctx context.Context, jobs []job) error {
	tx, err := c.pool.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // does nothing after the commit
	for _, j := range jobs {
		if _, err := dbos.Enqueue[int](c.Client, dbosQueueOf(j), dbosWorkflow, j, dbos.WithEnqueueTransaction(tx)); err != nil {
			return err
		}
	}
	return tx.Commit(ctx)
}

func (c dbosClient) close() {
	_ = dbos.Shutdown(c.Client, time.Second) // the process goes on or ends
	c.pool.Close()
}

// dbosPeer returns the peer DBOS with PostgreSQL. A job is a workflow whose steps do nothing. It counts as finished when its
// last step is committed; the result of the workflow is committed after that. Its worker polls every 10 ms, like that of
// asynq; the default is 1 s.
func dbosPeer(o options, name string) peer {
	return peer{
		name: name, server: postgresServer(o),
		prepare: func(ctx context.Context) error { return dbosPrepare(ctx, o) },
		dial:    func(ctx context.Context) (client, error) { return dbosDial(ctx, o) },
		work:    func(ctx context.Context, ready func(), done func(int64)) error { return dbosWork(ctx, o, ready, done) },
	}
}

func dbosPrepare(ctx context.Context, o options) error {
	pool, err := riverPool(ctx, o.postgresURL())
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, "DROP SCHEMA IF EXISTS dbos CASCADE"); err != nil {
		return err
	}
	return dbos.Migrate(ctx, o.postgresURL(), dbos.WithMigrateLogger(quiet()))
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func dbosDial(ctx context.Context, o options) (client, error) {
	pool, err := riverPool(ctx, o.postgresURL())
	if err != nil {
		return nil, err
	}
	c, err := dbos.NewClient(ctx, dbos.ClientConfig{AppName: dbosApp, SystemDBPool: pool, Logger: quiet()})
	if err != nil {
		pool.Close()
		return nil, err
	}
	return dbosClient{c, pool}, nil
}

func dbosWork(ctx context.Context, o options, ready func(), done func(int64)) error {
	pool, err := riverPool(ctx, o.postgresURL())
	if err != nil {
		return err
	}
	defer pool.Close()
	d, err := dbos.NewContext(ctx, dbos.Config{AppName: dbosApp, SystemDBPool: pool, Logger: quiet()})
	if err != nil {
		return err
	}
	dbos.RegisterWorkflow(d, func(d dbos.Context, j job) (int, error) { return dbosRun(d, j, done) }, dbos.WithWorkflowName(dbosWorkflow))
	if _, err := dbos.RegisterQueue(d, idle); err != nil {
		return err
	}
	_, err = dbos.RegisterQueue(d, dbosQueue, dbos.WithWorkerConcurrency(concurrency), dbos.WithQueueBasePollingInterval(10*time.Millisecond))
	if err != nil {
		return err
	}
	dbos.ListenQueues(d, dbosQueue)
	if err := dbos.Launch(d); err != nil {
		return err
	}
	ready()
	<-ctx.Done()
	return dbos.Shutdown(d, time.Second)
}

// dbosRun is the workflow of a job.
func dbosRun(d dbos.Context, j job, done func(int64)) (int, error) {
	for range j.Steps + 1 {
		if _, err := dbos.RunAsStep(d, func(context.Context) (int, error) { return 0, nil }); err != nil {
			return 0, err
		}
	}
	done(j.ID)
	return 0, nil
}
