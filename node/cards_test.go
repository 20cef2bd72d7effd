package node_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
)

// requiredOfCards are the fields that A2A 1.0 requires of a card and of a skill.
var (
	requiredOfCards  = []string{"name", "description", "supportedInterfaces", "version", "capabilities", "defaultInputModes", "defaultOutputModes", "skills"}
	requiredOfSkills = []string{"id", "name", "description", "tags"}
)

// fetched is the answer to a request for a card.
type fetched struct {
	status int
	tag    string
	card   map[string]any
}

func fetchCard(t *testing.T, url, token, tag string) (f fetched) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	require.NoError(t, err)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("If-None-Match", tag)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	_ = json.Unmarshal(body, &f.card) // there may be none
	f.status, f.tag = resp.StatusCode, resp.Header.Get("ETag")
	return f
}

// checkCard checks what A2A requires, and that the card contains the URL for requests.
func checkCard(t *testing.T, f fetched, url string, skills int) {
	t.Helper()
	require.Equal(t, http.StatusOK, f.status)
	for _, name := range requiredOfCards {
		assert.Contains(t, f.card, name)
	}
	list, _ := f.card["skills"].([]any)
	assert.Len(t, list, skills)
	for _, s := range list {
		skill, _ := s.(map[string]any)
		for _, name := range requiredOfSkills {
			assert.NotEmpty(t, skill[name], name)
		}
	}
	assert.Empty(t, f.card["supportedInterfaces"], "nobody speaks A2A here")
	text, err := json.Marshal(f.card["capabilities"])
	require.NoError(t, err)
	assert.Contains(t, string(text), url+"/mcp")
}

// Programs that look for agents can fetch the card of the node, and with a token those of its agents.
func TestAgentCards(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.Faces.HTTP = "127.0.0.1:0"
	n := start(t, cfg)
	enrol(t, n, "ada", 1, "build", "cite:writing")
	url := strings.TrimSuffix(n.FaceURL(), "/mcp")
	issue := func(r bus.NewToken) string {
		r.Actor = "user:ada"
		_, secret, err := bus.IssueToken(t.Context(), n.Tokens(), r)
		require.NoError(t, err)
		return secret
	}
	card := fetchCard(t, url+"/.well-known/agent-card.json", "", "")
	checkCard(t, card, url, 3)
	assert.Equal(t, http.StatusNotModified, fetchCard(t, url+"/.well-known/agent-card.json", "", card.tag).status)

	viewer := issue(bus.NewToken{Name: "eye", Role: bus.RoleViewer})
	card = fetchCard(t, url+"/agents/ada/agent-card.json", viewer, "")
	checkCard(t, card, url, 2)
	assert.Equal(t, "ada", card.card["name"])
	assert.Equal(t, http.StatusNotFound, fetchCard(t, url+"/agents/nobody/agent-card.json", viewer, "").status)
	assert.Equal(t, http.StatusUnauthorized, fetchCard(t, url+"/agents/ada/agent-card.json", "", card.tag).status)
	few := issue(bus.NewToken{Name: "few", Role: bus.RoleSubmitter, Tools: []string{"FILE_READ"}})
	assert.Equal(t, http.StatusForbidden, fetchCard(t, url+"/agents/ada/agent-card.json", few, "").status)
}
