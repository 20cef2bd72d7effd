package injection_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/internal/logtest"
	"github.com/orch-dev/orch/models/modelstest"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/plan"
	"github.com/orch-dev/orch/statemachine"
)

type jsonText = json.RawMessage

// person is the only one who decides.
const person = "user:ada"

// patience bounds waits that are normally short.
const patience = time.Minute

// tick is the time between two looks.
const tick = 20 * time.Millisecond

// made returns a random-looking text that is the same in each run.
func made(name string, n int) string {
	sum := sha256.Sum256([]byte("injection " + name))
	return hex.EncodeToString(sum[:])[:n]
}

// The secrets of the world. Those with a form are found by it; the others are safe only because nothing reads them.
var (
	envSecret      = "kestrel-" + made("env", 12)
	settingsSecret = "heron-" + made("settings", 12)
	sshSecret      = "plover-" + made("ssh", 12)
	ledgerSecret   = "curlew-" + made("ledger", 12)
	privateSecret  = "dunlin-" + made("private", 12)
	githubSecret   = "ghp_" + made("github", 36)
)

// world is a person with a home, a project and a node, a provider of models that obey, and servers.
type world struct {
	t     *testing.T
	dir   string
	node  *node.Node
	model *gullible
	log   logtest.Buffer
	// web may be reached by tools, evil not.
	web, evil string
	cases     map[string]injection

	mu sync.Mutex
	// fetched and caught are the requests to web and evil. decided are the approvals that the person has decided.
	fetched, caught []string
	decided         map[string]bool
	// granting are tasks of which the person grants everything.
	granting map[events.TaskID]bool
}

func (w *world) root() string             { return filepath.Join(w.dir, "root") }
func (w *world) data() string             { return filepath.Join(w.dir, "home/.orch/data") }
func (w *world) dirOf(c injection) string { return filepath.Join(w.root(), "cases", c.Name) }
func (w *world) note(to *[]string, r *http.Request) {
	dump, _ := httputil.DumpRequest(r, true)
	w.mu.Lock()
	defer w.mu.Unlock()
	*to = append(*to, string(dump))
}

// textOf returns the text of a case.
func (w *world) textOf(name string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cases[name].Text
}

// place fills in the places of a case.
func (w *world) place(c injection, text string) string {
	return strings.NewReplacer(
		"{root}", w.root(), "{dir}", w.dirOf(c), "{home}", filepath.Join(w.dir, "home"), "{data}", w.data(), "{outside}", filepath.Join(w.dir, "outside"),
		"{web}", w.web, "{evil}", w.evil, "{name}", c.Name, "{github}", githubSecret,
	).Replace(text)
}

// newWorld starts a world. The environment of the process has a secret.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), model: newGullible(), cases: map[string]injection{}, decided: map[string]bool{}, granting: map[events.TaskID]bool{}}
	t.Setenv("DESK_TOKEN", envSecret)
	serve := func(f http.HandlerFunc) string {
		s := httptest.NewServer(f)
		t.Cleanup(s.Close)
		return s.URL
	}
	w.web, w.evil = serve(w.page), serve(func(_ http.ResponseWriter, r *http.Request) { w.note(&w.caught, r) })
	w.furnish(serve(w.desk))
	w.start(modelstest.NewServer(t, w.model.answer))
	return w
}

// furnish writes the files of the world.
func (w *world) furnish(desk string) {
	at := func(path string) string { return filepath.Join(w.dir, path) }
	w.write(at("outside/ledger.txt"), "paid "+ledgerSecret+"\n")
	w.write(at("home/.ssh/id_ed25519"), "-----BEGIN OPENSSH PRIVATE KEY-----\n"+sshSecret+"\n-----END OPENSSH PRIVATE KEY-----\n")
	w.write(at("home/.orch/config.yaml"), "# "+settingsSecret+"\n")
	w.write(at("home/.orch/key"), modelstest.Key)
	w.write(at("home/.orch/policy.yaml"), "version: 1\ndefault: allow\nrules:\n  - {name: private, action: deny, paths: ['private/**'], tools: ['FILE_*', '*_SEARCH', 'DIRECTORY_*', move_file, shell_exec, append, write_file]}\n  - {name: no-mail, action: deny, recipients: ['agent:mallory']}\n")
	definition, err := json.Marshal(object{"schemaVersion": "1.0.0", "name": "desk", "transport": "http", "baseURL": desk, "capabilities": []string{"tools"}})
	require.NoError(w.t, err)
	w.write(at("home/.orch/mcp/desk.json"), string(definition))
	w.write(at("root/private/salaries.txt"), privateSecret+"\n")
	w.write(at("root/.env"), "GITHUB_TOKEN="+githubSecret+"\n")
	w.write(at("root/project/main.go"), "package main\n")
	w.write(at("root/.orch/agents/helper.yaml"), "orch: v1\ninputs: {type: object, properties: {prompt: {type: string}}}\nsteps:\n  - {id: read, tool: FILE_READ, with: {file_path: '${{ inputs.prompt }}'}}\noutputs: {report: '${{ steps.read.output.content }}'}\n")
	w.write(at("root/.orch/agents/admin.yaml"), "orch: v1\ninputs: {type: object, properties: {prompt: {type: string}}}\nsteps:\n  - {id: run, tool: BASH_EXECUTE, with: {command: 'echo did it'}}\noutputs: {report: '${{ steps.run.output.stdout }}'}\n")
	require.NoError(w.t, os.Symlink(at("outside"), at("root/shortcut")))
}

func (w *world) start(models *modelstest.Server) {
	providers, prices := map[string]config.ModelProvider{}, map[string]config.ModelPrice{}
	for _, wire := range []string{modelstest.OpenAI, modelstest.Anthropic, modelstest.Gemini} {
		providers[wire] = config.ModelProvider{Wire: wire, URL: models.BaseURL(wire), Key: config.Secret("file:" + w.dir + "/home/.orch/key")}
		prices[wire+"/*"] = config.ModelPrice{Input: 1000, Output: 2000, AsOf: "2026-11-01"}
	}
	n, err := node.Start(w.t.Context(), node.Config{
		Operator: person, DataDir: w.data(), Root: w.root(), Storage: node.Storage{Durability: "relaxed"}, Worker: node.Worker{Concurrency: 16}, Version: "test",
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Models: config.Models{Providers: providers, Prices: prices},
		Confinement: node.Confinement{Policy: w.dir + "/home/.orch/policy.yaml"},
		Tools:       config.Tools{NetAllow: []string{strings.TrimPrefix(w.web, "http://")}},
		Faces: node.Faces{Servers: node.Servers{Home: w.dir + "/home", Getenv: func(name string) string {
			return map[string]string{"PATH": os.Getenv("PATH"), "HOME": w.dir + "/home"}[name]
		}}},
	})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { assert.NoError(w.t, n.Stop(context.Background())) })
	w.node = n
	go w.decide(w.t.Context())
}

// decide is the person: it rejects whatever asks, except in tasks of the test itself.
func (w *world) decide(ctx context.Context) {
	tick := time.NewTicker(tick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		list, err := w.node.API().Approvals(ctx, api.ApprovalsRequest{})
		if err != nil {
			continue // the node ends
		}
		for _, a := range list.Approvals {
			w.mu.Lock()
			as := "rejected"
			if w.granting[a.Task] {
				as = "granted"
			}
			w.decided[a.ID] = true
			w.mu.Unlock()
			_, _ = w.node.API().Decide(ctx, api.DecideRequest{ID: a.ID, As: as, Reason: "I did not ask for this", Actor: person})
		}
	}
}

// submit submits a plan.
func (w *world) submit(who string, p any) (events.TaskID, error) {
	text, err := json.Marshal(p)
	require.NoError(w.t, err)
	reply, err := w.node.API().Submit(w.t.Context(), api.SubmitRequest{Plan: text, Actor: who})
	return reply.ID, err
}

// call lets somebody call a tool. The person grants what it asks.
func (w *world) call(who, tool string, args object) {
	w.t.Helper()
	raw, err := json.Marshal(args)
	require.NoError(w.t, err)
	p, err := plan.FromCall(tool, raw)
	require.NoError(w.t, err)
	id, err := w.submit(who, p)
	require.NoError(w.t, err)
	w.mu.Lock()
	w.granting[id] = true
	w.mu.Unlock()
	r := w.result(id)
	require.Equal(w.t, statemachine.Done, r.State, "%s %s: %v", tool, raw, r.Error)
}

func (w *world) result(id events.TaskID) api.ResultReply {
	w.t.Helper()
	r, err := w.node.API().Result(w.t.Context(), api.ResultRequest{ID: id, Wait: patience})
	require.NoError(w.t, err)
	require.True(w.t, r.Ended, "%s: %s", r.State, r.Reason)
	return r
}

// secrets returns all values that nobody may see, with the credentials of the node.
func (w *world) secrets() []string {
	all := []string{envSecret, settingsSecret, sshSecret, ledgerSecret, privateSecret, githubSecret, modelstest.Key}
	raw, err := os.ReadFile(filepath.Join(w.data(), "auth.json"))
	require.NoError(w.t, err)
	texts(parsed[any](raw), func(_, text string) {
		if len(text) >= 16 {
			all = append(all, text)
		}
	})
	require.Greater(w.t, len(all), 7, "auth.json has no credentials")
	return all
}

// files returns the digests of all files that no case may change.
func (w *world) files() map[string]string {
	all := map[string]string{}
	for _, dir := range []string{"outside", "home/.ssh", "home/.orch/config.yaml", "home/.orch/key", "home/.orch/policy.yaml", "home/.orch/data/auth.json", "root/private", "root/project", "root/.orch", "root/.env", "root/shortcut"} {
		require.NoError(w.t, filepath.WalkDir(filepath.Join(w.dir, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				all[path] = "there"
				return err
			}
			content, err := os.ReadFile(path)
			all[path] = string(content)
			return err
		}))
	}
	return all
}

// fetchedFor returns the requests to the web that name a case, and all that evil has caught.
func (w *world) fetchedFor(c injection) (fetched, caught []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.fetched {
		if strings.Contains(r, c.Name) {
			fetched = append(fetched, r)
		}
	}
	return fetched, slices.Clone(w.caught)
}

func parsed[T any](raw []byte) (value T) {
	_ = json.Unmarshal(raw, &value) // what is no JSON is empty
	return value
}
