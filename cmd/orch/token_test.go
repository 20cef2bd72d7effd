package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/bus"
)

func TestTokenCommands(t *testing.T) {
	t.Parallel()
	p := newProbe(t, &fakeSession{})
	run := func(args ...string) (string, string, int) {
		p.out.Reset()
		p.err.Reset()
		code := p.run(t.Context(), append([]string{"token"}, args...))
		return p.out.String(), p.err.String(), code
	}
	out, _, code := run("list")
	assert.Zero(t, code)
	assert.Equal(t, "there are no tokens\n", out)

	out, note, code := run("create", "bot", "--role", "agent")
	assert.Zero(t, code, note)
	assert.Regexp(t, `^orch_\w{43}\n$`, out)
	assert.Contains(t, note, "TOK_01KE0000000000000000000000 of role agent, expires in 1d00h")
	secret := strings.TrimSpace(out)
	out, _, _ = run("create", "ada", "--role", "submitter", "-o", "name")
	assert.Regexp(t, `^orch_\w{43}\n$`, out)
	out, _, _ = run("list", "-o", "json")
	assert.Contains(t, out, `"created_by": ""`, "the session says who it is")
	assert.Contains(t, out, `"expires_at": "2026-01-03T12:00:00Z"`)
	assert.Contains(t, out, `"expires_at": "2026-04-02T12:00:00Z"`, "90 days")
	assert.NotContains(t, out, secret)
	out, _, _ = run("list", "-o", "jsonl")
	assert.Equal(t, 2, strings.Count(out, "\n"))

	out, _, code = run("revoke", "bot")
	assert.Zero(t, code)
	assert.Equal(t, "TOK_01KE0000000000000000000000 (bot) is revoked\n", out)
	_, note, code = run("revoke", "nobody")
	assert.Equal(t, exitNotFound, code)
	assert.Contains(t, note, "NOT_FOUND")
}

func TestTokenWords(t *testing.T) {
	t.Parallel()
	c := &tokenCommands{connector: newProbe(t).connector}
	assert.Equal(t, "all", shownTools(bus.Token{}))
	assert.Equal(t, "read-only", shownTools(bus.Token{ReadOnly: true}))
	assert.Equal(t, "A,B read-only", shownTools(bus.Token{Tools: []string{"A", "B"}, ReadOnly: true}))
	assert.Equal(t, "user:ada", creatorText(bus.Token{CreatedBy: "user:ada"}))
	assert.Equal(t, "host:/data", creatorText(bus.Token{CreatedBy: "user:ada", Local: "host:/data"}))
	assert.Equal(t, "never expires", c.expiryText(bus.Token{}))
	assert.Equal(t, "expired", c.expiryText(bus.Token{ExpiresAt: noon}))
}
