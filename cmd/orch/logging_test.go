package main

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type named string

func TestLogLinesHoldNoSecrets(t *testing.T) {
	t.Parallel()
	token := "gh" + "p_4paQ9o0F4w08wzaiZk7p3fjE0ZH6lIN1s14i"
	for name, value := range map[string]any{
		"text": "no task " + token, "error": fmt.Errorf("open: %w", errors.New("a_"+token)), "named": named(token),
		"list": []string{"x", token}, "bytes": []byte(token), "marshalled": encoded(token), "group": slog.GroupValue(slog.String("inner", token)),
	} {
		var lines bytes.Buffer
		log := newLogger(&lines, "info")
		log = log.With(slog.String("before", token)).WithGroup("g")
		log.LogAttrs(t.Context(), slog.LevelInfo, "said "+token, slog.Any(name, value)) //nolint:sloglint // messages are cleaned, too
		assert.NotContains(t, lines.String(), token[4:], name)
		assert.GreaterOrEqual(t, bytes.Count(lines.Bytes(), []byte("[REDACTED:")), 3, "%s: %s", name, &lines)
	}
}

// encoded is a value whose text form differs from its bytes.
type encoded string

func (j encoded) MarshalText() ([]byte, error) { return []byte(j), nil }

func TestLogLinesWithoutSecretsAreAsTheyWere(t *testing.T) {
	t.Parallel()
	attrs := []slog.Attr{
		slog.Int("n", 7), slog.Duration("took", time.Second), slog.Time("since", time.Unix(0, 0).UTC()),
		slog.Any("error", errors.New("no such file or directory")), slog.Any("nothing", nil),
		slog.Any("task", named("TASK_01M83D1Y2Q3R4S5T6V7W8X9Y0Z")), slog.Any("names", []string{"alpha", "beta"}),
	}
	var plain, cleaned bytes.Buffer
	line := slog.NewRecord(time.Now(), slog.LevelWarn, "said", 0)
	line.AddAttrs(attrs...)
	require.NoError(t, slog.NewTextHandler(&plain, nil).Handle(t.Context(), line))
	require.NoError(t, newLogger(&cleaned, "info").Handler().Handle(t.Context(), line))
	assert.Equal(t, plain.String(), cleaned.String())
}

func BenchmarkLogLine(b *testing.B) {
	var lines bytes.Buffer
	log := newLogger(&lines, "info")
	for b.Loop() {
		log.Info("rpc_call", slog.String("request_id", "req_fda36172831a5b2c"), slog.String("client", "agent:reader"),
			slog.String("method", "FILE_READ"), slog.String("task", ""), slog.Duration("took", time.Second))
		lines.Reset()
	}
}
