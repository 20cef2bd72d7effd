package server

import (
	"context"
	"log/slog"
)

// debugHandler handles log entries of the SDK. It logs all of them at debug level, because the SDK logs mistakes of clients as
// warnings and errors.
type debugHandler struct{ slog.Handler }

// Enabled implements slog.Handler.
func (q debugHandler) Enabled(ctx context.Context, _ slog.Level) bool {
	return q.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler.
func (q debugHandler) Handle(ctx context.Context, r slog.Record) error {
	r.Level = slog.LevelDebug
	return q.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (q debugHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return debugHandler{q.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (q debugHandler) WithGroup(name string) slog.Handler {
	return debugHandler{q.Handler.WithGroup(name)}
}
