package worker

import (
	"context"
	"log/slog"
	"strings"

	"github.com/orch-dev/orch/work"
)

// redactingHandler removes secrets from what tools write to the log.
type redactingHandler struct {
	slog.Handler

	clean func(string) string
}

// Handle implements slog.Handler.
func (d redactingHandler) Handle(ctx context.Context, r slog.Record) error {
	clean := slog.NewRecord(r.Time, r.Level, d.clean(r.Message), r.PC)
	r.Attrs(func(a slog.Attr) bool {
		clean.AddAttrs(d.attr(a))
		return true
	})
	return d.Handler.Handle(ctx, clean)
}

// WithAttrs implements slog.Handler.
func (d redactingHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return redactingHandler{d.Handler.WithAttrs(d.attrs(attrs)), d.clean}
}

// WithGroup implements slog.Handler.
func (d redactingHandler) WithGroup(name string) slog.Handler {
	return redactingHandler{d.Handler.WithGroup(name), d.clean}
}

func (d redactingHandler) attrs(attrs []slog.Attr) []slog.Attr {
	clean := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		clean[i] = d.attr(a)
	}
	return clean
}

// attr redacts the value of an attribute. The key is part of the searched text, because some secrets are recognized only by
// their names.
func (d redactingHandler) attr(a slog.Attr) slog.Attr {
	value := a.Value.Resolve()
	switch value.Kind() {
	case slog.KindGroup:
		return slog.Attr{Key: a.Key, Value: slog.GroupValue(d.attrs(value.Group())...)}
	case slog.KindString, slog.KindAny:
		return slog.String(a.Key, strings.TrimPrefix(d.clean(a.Key+"="+value.String()), a.Key+"="))
	default:
		return slog.Attr{Key: a.Key, Value: value}
	}
}

// callHandler is the handler of a tool: it adds the call to each record. Most calls log nothing, so it builds the attributes
// only when needed.
type callHandler struct {
	redactingHandler

	call *work.Call
}

// Handle implements slog.Handler.
func (h callHandler) Handle(ctx context.Context, r slog.Record) error {
	return h.named().Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h callHandler) WithAttrs(attrs []slog.Attr) slog.Handler { return h.named().WithAttrs(attrs) }

// WithGroup implements slog.Handler.
func (h callHandler) WithGroup(name string) slog.Handler { return h.named().WithGroup(name) }

func (h callHandler) named() slog.Handler {
	return h.redactingHandler.WithAttrs([]slog.Attr{
		slog.String("task", string(h.call.Task)), slog.String("step", h.call.Step), slog.String("tool", h.call.Tool),
	})
}
