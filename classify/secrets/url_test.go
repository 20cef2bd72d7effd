package secrets_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/classify/secrets"
)

func TestURL(t *testing.T) {
	t.Parallel()
	for given, shown := range map[string]string{
		"nats://127.0.0.1:4222":            "nats://127.0.0.1:4222",
		"nats://[::1]:4222":                "nats://[::1]:4222",
		"tls://nats.example.org":           "tls://nats.example.org",
		"nats://bot:pw@h:4222":             "nats://bot:xxxxx@h:4222",
		"nats://bot:p@w:x/y@h:4222":        "nats://bot:xxxxx@h:4222",
		"nats://token@h:4222":              "nats://xxxxx@h:4222",
		"nats://a:b@h:1,nats://c:d@i:2":    "nats://a:xxxxx@h:1,nats://c:xxxxx@i:2",
		"nats://h:1,nats://c:d@i:2":        "nats://h:1,nats://c:xxxxx@i:2",
		"bot:pw@h:4222":                    "bot:xxxxx@h:4222",
		"nats://bot:pw@h:bad":              "nats://bot:xxxxx@h:bad",
		"nats://bot:half,other@h:4222":     "nats://bot:xxxxx,xxxxx@h:4222",
		"https://bot:pw@h.example.org/a?b": "https://bot:xxxxx@h.example.org/a?b",
		"":                                 "",
	} {
		assert.Equal(t, shown, secrets.URL(given), given)
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	name := "ghp_" + "0123456789abcdefghijklmnopqrstuvwxyz"
	assert.Equal(t, `there is no tool "[REDACTED:github_token]"`, secrets.Clean(`there is no tool "`+name+`"`))
	assert.Equal(t, "inputs.[REDACTED:github_token]", secrets.Clean("inputs."+name))
	assert.Equal(t, "id: no task begins with TASK_1", secrets.Clean("id: no task begins with TASK_1"))
}
