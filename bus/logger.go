package bus

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// serverLog is the logger of the embedded server. It logs the server's notices at debug level.
type serverLog struct{ log *slog.Logger }

func (l serverLog) emit(level slog.Level, format string, args []any) {
	ctx := context.Background()
	if !l.log.Enabled(ctx, level) {
		return
	}
	text := fmt.Sprintf(format, args...)
	if strings.HasPrefix(text, "Plaintext passwords detected") {
		return // random passwords in a file that only the owner can read
	}
	l.log.LogAttrs(ctx, level, "nats server", slog.String("text", text))
}

// Noticef implements the logger of the server, as the other methods do.
func (l serverLog) Noticef(format string, v ...any) { l.emit(slog.LevelDebug, format, v) }

// indexRebuilt recognizes the formats of the warnings that the index of a stream is unusable or behind.
// After an unclean shutdown that is expected and harmless: the server reads the blocks instead.
func indexRebuilt(format string) bool {
	return strings.Contains(format, "Recovering stream state from index errored") ||
		strings.Contains(format, "Stream state outdated, last block has additional entries")
}

// Warnf logs a warning, or a debug message if nothing needs to be done about it.
func (l serverLog) Warnf(format string, v ...any) {
	level := slog.LevelWarn
	if indexRebuilt(format) {
		level = slog.LevelDebug
	}
	l.emit(level, format, v)
}

// Fatalf logs an error; the server never ends the process here.
func (l serverLog) Fatalf(format string, v ...any) { l.emit(slog.LevelError, format, v) }

// Errorf logs an error. It drops permission violations, which the client gets itself: an agent could fill the log with them.
func (l serverLog) Errorf(format string, v ...any) {
	level := slog.LevelError
	if strings.Contains(format, "Violation") {
		level = slog.LevelDebug
	}
	l.emit(level, format, v)
}

// Debugf logs a debug message.
func (l serverLog) Debugf(format string, v ...any) { l.emit(slog.LevelDebug, format, v) }

// Tracef logs a debug message.
func (l serverLog) Tracef(format string, v ...any) { l.emit(slog.LevelDebug, format, v) }
