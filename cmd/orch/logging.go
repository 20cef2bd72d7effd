package main

import (
	"encoding"
	"fmt"
	"io"
	"log/slog"

	"github.com/orch-dev/orch/classify/secrets"
)

// newLogger returns the logger of a process. It removes secrets from the lines, because they contain untrusted data such as
// names, paths and the texts of errors.
func newLogger(to io.Writer, level string) *slog.Logger {
	var least slog.Level
	if least.UnmarshalText([]byte(level)) != nil {
		least = slog.LevelWarn
	}
	return slog.New(slog.NewTextHandler(to, &slog.HandlerOptions{Level: least, ReplaceAttr: withoutSecrets}))
}

// withoutSecrets is a slog.HandlerOptions.ReplaceAttr that removes secrets from an attribute.
func withoutSecrets(_ []string, a slog.Attr) slog.Attr {
	text := textOf(a.Value)
	if clean := secrets.Clean(text); clean != text {
		a.Value = slog.StringValue(clean)
	}
	return a
}

// textOf returns the text of a value in a log line. It returns "" if the value cannot contain a secret.
func textOf(v slog.Value) string {
	const least = 8
	text := ""
	switch v.Kind() {
	case slog.KindString:
		text = v.String()
	case slog.KindAny:
		text = textOfAny(v.Any())
	default: // numbers and times
	}
	if len(text) < least {
		return ""
	}
	return text
}

// textOfAny formats a value like slog.TextHandler.
func textOfAny(v any) string {
	switch v := v.(type) {
	case []byte:
		return string(v)
	case encoding.TextMarshaler:
		text, err := v.MarshalText()
		if err == nil {
			return string(text)
		}
	}
	return fmt.Sprintf("%+v", v)
}
