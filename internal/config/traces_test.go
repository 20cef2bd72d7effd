package config_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/config"
)

func TestTraces(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"traces_to: http://127.0.0.1:4318", "traces_to: https://collector.example.com/otlp/v1/traces", "traces_to: ''",
		"traces_view: https://jaeger.example.com/trace/{trace}", "traces_view: https://x.example?id={trace}&tab=1#{trace}", "traces_view: ''",
	} {
		var c config.Config
		require.NoError(t, config.Parse(&c, "f.yaml", []byte(line+"\n"), "/home", "/home"), line)
	}
	for line, message := range map[string]string{
		"traces_to: 127.0.0.1:4318":                     "it must be a URL",
		"traces_to: grpc://collector:4317":              "it must be a URL",
		"traces_to: https://a:hunter2@collector":        "neither user nor password",
		"traces_to: https://collector?key=hunter2":      "neither a query nor a fragment",
		"traces_to: https://collector/?":                "neither a query nor a fragment",
		"traces_to: 'https://collector/#hunter2'":       "neither a query nor a fragment",
		"traces_view: https://jaeger/trace":             "it must have {trace}",
		"traces_view: https://{trace}.jaeger":           "it must have {trace}",
		"traces_view: 'javascript:alert({trace})'":      "it must be a URL",
		"traces_view: https://a:hunter2@jaeger/{trace}": "neither user nor password",
	} {
		var c config.Config
		err := config.Parse(&c, "f.yaml", []byte(line+"\n"), "/home", "/home")
		require.Error(t, err, line)
		assert.Contains(t, fault.From(err).Message, message, line)
		assert.NotContains(t, err.Error()+fault.From(err).Hint, "hunter2", line)
	}
}
