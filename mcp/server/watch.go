package server

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
)

// watch waits until a task ends or waits for people, at most for wait. Meanwhile it sends progress and log entries to a
// client that wants them.
func (cl *caller) watch(ctx context.Context, c client, r *run, wait time.Duration) (api.ResultReply, error) {
	if r.token == nil && !cl.clients.wantsLogs(c) {
		return cl.result(ctx, c.reservation, api.ResultRequest{ID: r.id, Wait: max(wait, 0), Attend: true})
	}
	limit := cl.cfg.Now().Add(wait)
	for {
		now, err := cl.result(ctx, c.reservation, api.ResultRequest{ID: r.id, Attend: true})
		if err != nil {
			return now, err
		}
		left := limit.Sub(cl.cfg.Now())
		done := now.Ended || now.Waits || left <= 0
		if done {
			left = 0
		}
		if err := cl.reportNews(ctx, c, r, left); err != nil || done {
			return now, err
		}
	}
}

// reportNews waits for news of a task and sends its progress and log entries to the client.
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

// sendProgress sends progress; MCP requires that it increases (S2-012).
func (cl *caller) sendProgress(ctx context.Context, c client, r *run, done, total float64, message string) {
	if r.token == nil || r.reported && done <= r.progress {
		return
	}
	r.reported, r.progress = true, done
	_ = c.session.NotifyProgress(ctx, &mcp.ProgressNotificationParams{ProgressToken: r.token, Progress: done, Total: total, Message: message})
}

// sendLog sends the log entries of a commit that have the level the client wants (S2-043).
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

// levelOf returns the MCP level of a level of LOG_WRITE (S2-043).
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
