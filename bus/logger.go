package bus

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// serverLog implements the logger interface of the NATS server. It logs the server's notices at debug level.
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

// Noticef logs a debug message.
func (l serverLog) Noticef(format string, v ...any) { l.emit(slog.LevelDebug, format, v) }

// indexRebuilt reports whether format is that of a warning about an unusable or outdated index of a stream. Such a warning is
// expected after an unclean shutdown and harmless, because the server reads the blocks instead.
func indexRebuilt(format string) bool {
	return strings.Contains(format, "Recovering stream state from index errored") ||
		strings.Contains(format, "Stream state outdated, last block has additional entries")
}

// Warnf logs a warning. It logs harmless warnings, see indexRebuilt, at debug level.
func (l serverLog) Warnf(format string, v ...any) {
	level := slog.LevelWarn
	if indexRebuilt(format) {
		level = slog.LevelDebug
	}
	l.emit(level, format, v)
}

// Fatalf logs an error. It does not end the process.
func (l serverLog) Fatalf(format string, v ...any) { l.emit(slog.LevelError, format, v) }

// Errorf logs an error. It logs permission violations at debug level, because an agent could fill the log with them; the
// client gets the error itself.
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
