package notify

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/netguard"
	"github.com/orch-dev/orch/tools"
)

// sendTime is the time limit for the delivery to all channels of a call.
const sendTime = 30 * time.Second

// sendFunc delivers a notice to one channel. Its errors contain no URL.
type sendFunc func(ctx context.Context, env *tools.Env, n Notice) error

// channels are the notification channels of a node.
type channels struct {
	senders  map[string]sendFunc
	defaults []string
}

func newChannels(cfg Config) *channels {
	c := &channels{senders: map[string]sendFunc{}, defaults: cfg.Default}
	for name, raw := range cfg.Channels {
		c.senders[name] = newSendFunc(cfg, raw)
	}
	c.senders["log"] = toLog
	c.senders["file"] = toFile
	if cfg.Publish != nil {
		c.senders["nats"] = func(ctx context.Context, _ *tools.Env, n Notice) error { return cfg.Publish(ctx, n) }
	}
	if len(c.defaults) == 0 {
		c.defaults = []string{"log"}
	}
	return c
}

func (c *channels) names() []string { return slices.Sorted(maps.Keys(c.senders)) }

// toLog writes a notice to the log of the task and to the log of the node. The entry in the log of the task is
// committed together with the result of the call.
func toLog(ctx context.Context, env *tools.Env, n Notice) error {
	level, logged := "INFO", slog.LevelInfo
	if n.Priority == "high" || n.Priority == "critical" {
		level, logged = "WARN", slog.LevelWarn
	}
	logContext, err := json.Marshal(map[string]string{"notification": n.Priority, "subject": n.Subject})
	if err != nil {
		return err
	}
	env.Record(events.LogWritten, &events.Logged{Step: n.Step, Level: level, Message: n.Subject + ": " + n.Message, Context: logContext, At: n.At})
	env.Log.LogAttrs(ctx, logged, "notification", slog.String("task", string(n.Task)), slog.String("priority", n.Priority),
		slog.String("subject", n.Subject))
	return nil
}

// newSendFunc returns the function that delivers notices to the service at the URL raw.
func newSendFunc(cfg Config, raw string) sendFunc {
	if strings.HasPrefix(raw, "http://") || strings.HasPrefix(raw, "https://") {
		return webhook(netguard.New(cfg.Net.Reaching(raw)), raw)
	}
	return newService(raw).send
}

// webhook returns a function that posts a notice as JSON. It does not follow redirects: a redirect is an error.
func webhook(client *netguard.Client, raw string) sendFunc {
	return func(ctx context.Context, _ *tools.Env, n Notice) error {
		u, err := client.Parse(raw)
		if err != nil {
			return fault.New(fault.InvalidFormat, "the configured URL is not valid")
		}
		body, err := json.Marshal(n)
		if err != nil {
			return err
		}
		res, err := client.Do(ctx, netguard.Request{
			Method: http.MethodPost, URL: u, Body: string(body), Limit: 1 << 10,
			Header: http.Header{"Content-Type": {"application/json"}, "Idempotency-Key": {n.Key}},
		})
		if err != nil {
			e := fault.From(err)
			e.Message = strings.Replace(e.Message, netguard.Endpoint(u), "the service", 1)
			return e
		}
		if res.Status/100 != 2 {
			return fault.New(fault.NetworkError, "the service answered with status %d", res.Status)
		}
		return nil
	}
}
