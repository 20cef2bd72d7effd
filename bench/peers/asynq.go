package main

import (
	"context"
	"encoding/json"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

// concurrency is the number of concurrent jobs of a worker, as in `orch bench`.
const concurrency = 256

func peersOf(o options) []peer {
	list := []peer{
		asynqPeer(o, "asynq, redis everysec", "everysec"),
		asynqPeer(o, "asynq, redis always", "always"),
		riverPeer(o, "River, PostgreSQL fsync", 0),
		riverPeer(o, "River, PostgreSQL fsync, fetch cooldown 2 ms", 2*time.Millisecond),
		dbosPeer(o, "DBOS, PostgreSQL fsync"),
	}
	if o.restateServer != "" {
		list = append(list, restatePeer(o, "Restate, fsync"))
	}
	for i := range list {
		list[i].options = o
	}
	return list
}

const asynqKind = "bench"

type asynqClient struct{ *asynq.Client }

func (c asynqClient) submit(ctx context.Context, j job, delay time.Duration) error {
	data, err := json.Marshal(j)
	if err != nil {
		return err
	}
	var options []asynq.Option
	if delay > 0 {
		options = append(options, asynq.ProcessIn(delay))
	}
	if j.ID == idleID {
		options = append(options, asynq.Queue(idle))
	}
	_, err = c.EnqueueContext(ctx, asynq.NewTask(asynqKind, data), options...)
	return err
}

func (c asynqClient) submitMany(context.Context, []job) error { return errNoBatch }

func (c asynqClient) close() { _ = c.Close() }

// asynqPeer returns the peer asynq with redis. Its idle worker polls for new jobs every 10 ms, and for delayed jobs every
// 100 ms; the defaults are seconds. asynq rounds delays to whole seconds and may run jobs early.
func asynqPeer(o options, name, sync string) peer {
	target := asynq.RedisClientOpt{Addr: o.redis}
	return peer{
		name: name, server: redisServer(o, sync),
		prepare: func(ctx context.Context) error {
			c := redis.NewClient(&redis.Options{Addr: o.redis})
			defer c.Close()
			return c.FlushAll(ctx).Err()
		},
		dial: func(context.Context) (client, error) { return asynqClient{asynq.NewClient(target)}, nil },
		work: func(ctx context.Context, ready func(), done func(int64)) error {
			c := asynqClient{asynq.NewClient(target)}
			defer c.close()
			server := asynq.NewServer(target, asynq.Config{
				Concurrency: concurrency, LogLevel: asynq.FatalLevel,
				TaskCheckInterval: 10 * time.Millisecond, DelayedTaskCheckInterval: 100 * time.Millisecond,
			})
			handler := asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error { return asynqStep(ctx, c, t, done) })
			if err := server.Start(handler); err != nil {
				return err
			}
			ready()
			<-ctx.Done()
			server.Shutdown()
			return nil
		},
	}
}

func asynqStep(ctx context.Context, c client, t *asynq.Task, done func(int64)) error {
	var j job
	if err := json.Unmarshal(t.Payload(), &j); err != nil {
		return err
	}
	if j.Steps > 0 {
		return c.submit(ctx, job{ID: j.ID, Steps: j.Steps - 1}, 0)
	}
	done(j.ID)
	return nil
}
