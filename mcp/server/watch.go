package server

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// watch waits, no longer than wait, until a task has ended or needs a person's answer. Meanwhile it sends progress and log
// entries to a client that has requested them.
func (cl *caller) watch(ctx context.Context, c client, r *run, wait time.Duration) (api.ResultReply, error) {
	if r.token == nil && !cl.clients.wantsLogs(c) {
		return cl.result(ctx, c.reservation, api.ResultRequest{ID: r.id, Wait: max(wait, 0), Attend: true})
	}
	limit := cl.cfg.Now().Add(wait)
	for {
		result, err := cl.result(ctx, c.reservation, api.ResultRequest{ID: r.id, Attend: true})
		if err != nil {
			return result, err
		}
		left := limit.Sub(cl.cfg.Now())
		done := result.Ended || result.Waits || left <= 0
		if done {
			left = 0
		}
		if err := cl.reportNews(ctx, c, r, left); err != nil || done {
			return result, err
		}
	}
}

// reportNews waits for new commits or new progress of a task, and sends the progress and log entries to the client.
func (cl *caller) reportNews(ctx context.Context, c client, r *run, wait time.Duration) error {
	w, err := cl.cfg.API.Watch(ctx, api.WatchRequest{ID: r.id, After: r.rev, SeenVersion: r.seen, Wait: wait})
	if err != nil {
		return err
	}
	r.seen = w.Version
	for _, p := range w.Progress {
		cl.sendProgress(ctx, c, r, p.Done, p.Total, p.Message)
	}
	for _, commit := range w.Commits {
		r.rev = commit.Rev
		cl.sendLog(ctx, c, r.id, commit)
	}
	return nil
}

// sendProgress sends progress. It drops a value that does not increase, because MCP requires that (S2-012).
func (cl *caller) sendProgress(ctx context.Context, c client, r *run, done, total float64, message string) {
	if r.token == nil || r.reported && done <= r.progress {
		return
	}
	r.reported, r.progress = true, done
	_ = c.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.token, Progress: done, Total: total, Message: message})
}

// sendLog sends the log entries in a commit (S2-043). The SDK drops entries below the level that the client has set.
func (cl *caller) sendLog(ctx context.Context, c client, id events.TaskID, commit api.CommitView) {
	for _, e := range commit.Events {
		d, ok := e.Data.(*events.Logged)
		if !ok {
			continue
		}
		data := object{"message": d.Message, "taskId": id}
		if len(d.Context) > 0 {
			data["context"] = d.Context
		}
		_ = c.session.Log(ctx, &mcp.LoggingMessageParams{Level: levelOf(d.Level), Logger: "orch", Data: data})
	}
}

// levelOf returns the log level of MCP for a level of the tool LOG_WRITE (S2-043).
func levelOf(level string) mcp.LoggingLevel {
	switch level {
	case "DEBUG":
		return "debug"
	case "WARN":
		return "warning"
	case "ERROR":
		return "error"
	case "CRITICAL":
		return "critical"
	default:
		return "info"
	}
}
