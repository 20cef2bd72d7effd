package node_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	settings "github.com/orch-dev/orch/internal/config"
	"github.com/orch-dev/orch/node"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools/notify"
)

// listen returns a function that waits for the next notice on the bus.
func listen(t *testing.T, dataDir string) (heard func() notify.Notice) {
	t.Helper()
	c, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: dataDir})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	sub, err := c.NATS().SubscribeSync(bus.NoticePrefix + ".*")
	require.NoError(t, err)
	require.NoError(t, c.NATS().Flush())
	return func() notify.Notice {
		m, err := sub.NextMsgWithContext(t.Context())
		require.NoError(t, err)
		var n notify.Notice
		require.NoError(t, json.Unmarshal(m.Data, &n))
		assert.Equal(t, bus.NoticePrefix+"."+string(n.Task), m.Subject)
		return n
	}
}

// A notice links to the page on which a person decides: at the address of the node, or at the one that people use.
func TestNoticesLinkToThePage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ http, public, want string }{
		"its own address":       {http: "127.0.0.1:0"},
		"an outside address":    {http: "127.0.0.1:0", public: "https://orch.example:8443/", want: "https://orch.example:8443/ui/"},
		"without HTTP, no link": {public: "https://orch.example", want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := config(t)
			cfg.Faces.HTTP, cfg.Faces.PublicURL, cfg.Extra = c.http, c.public, failing()
			cfg.NotifyOn, cfg.NotifyTo = []string{"failed", "approval"}, []string{"nats"}
			n := start(t, cfg)
			heard := listen(t, cfg.DataDir)
			page := c.want
			if page == "" {
				page = n.PageURL()
			}
			check := func(notice notify.Notice, command, path string) {
				t.Helper()
				if c.http == "" {
					assert.Empty(t, notice.Link)
					assert.True(t, strings.HasSuffix(notice.Message, "\n\n"+command), notice.Message)
					return
				}
				assert.Equal(t, page+path, notice.Link)
				assert.True(t, strings.HasSuffix(notice.Message, "\n\n"+command+"\n"+notice.Link), notice.Message)
			}
			submit(t, n.API(), `{orch: v1, name: asks, steps: [{id: a, tool: test.asks}]}`)
			asked := heard()
			list, err := n.API().Approvals(t.Context(), api.ApprovalsRequest{})
			require.NoError(t, err)
			require.Len(t, list.Approvals, 1)
			check(asked, "orch approve "+list.Approvals[0].ID, "approvals/"+list.Approvals[0].ID)
			failed := submit(t, n.API(), `{orch: v1, steps: [{id: a, tool: FILE_READ, with: {file_path: /none}}]}`)
			check(heard(), "orch explain "+string(failed), "tasks/"+string(failed))
		})
	}
}

// S0-186 on the bus: who listens hears of a failure, from the node and from a worker elsewhere.
func TestNoticesOnTheBus(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	server := cfg
	server.Worker.Concurrency = -1
	server.NotifyOn, server.NotifyTo = []string{"failed"}, []string{"nats"}
	n := start(t, server)
	heard := listen(t, cfg.DataDir)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- node.RunWorker(ctx, cfg) }()
	id := submit(t, n.API(), `{orch: v1, name: broken, steps: [{id: a, tool: FILE_READ, with: {file_path: /none}}]}`)
	assert.Equal(t, statemachine.Failed, result(t, n.API(), id).State)
	notice := heard()
	assert.Equal(t, id, notice.Task)
	assert.Regexp(t, `^broken has failed: step a: .`, notice.Subject)
	assert.Contains(t, notice.Message, "orch explain "+string(id))
	assert.Equal(t, "high", notice.Priority)
	run(t, n.API(), `{orch: v1, steps: [{id: a, tool: NOTIFICATION_SEND, with: {priority: low, subject: hi, message: there, channels: [nats]}}]}`)
	assert.Equal(t, "hi", heard().Subject)
	stop()
	require.NoError(t, <-ended)
}

// The answer of an agent in a chat is a notice of low priority. If the task waits for more than the next message, it has a high one.
func TestChatIsANoticeOfLowPriority(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	cfg.NotifyOn, cfg.NotifyTo = []string{"blocked"}, []string{"nats"}
	writeAgentFile(t, filepath.Join(cfg.Root, ".orch", "models", "talk.yaml"), "turns:\n  - text: Hello.\n  - text: Bye.\n")
	n := start(t, cfg)
	heard := listen(t, cfg.DataDir)
	const chat = `{orch: v1, name: talk, steps: [{id: a, agent: {model: "script:talk", prompt: Hi, chat: true}}`
	id := submit(t, n.API(), chat+`]}`)
	notice := heard()
	assert.Equal(t, []any{id, "low"}, []any{notice.Task, notice.Priority}, notice.Subject)
	_, err := n.API().Say(t.Context(), api.SayRequest{ID: id, Text: "And now?"})
	require.NoError(t, err)
	notice = heard()
	assert.Equal(t, []any{id, "low"}, []any{notice.Task, notice.Priority}, notice.Subject)

	asks := submit(t, n.API(), chat+`, {id: q, tool: QUESTION_ASK, with: {question: "Who?"}}]}`)
	notice = heard()
	assert.Equal(t, []any{asks, "high"}, []any{notice.Task, notice.Priority}, notice.Subject)
}

// A channel that hangs blocks no task: notices that do not fit into the queue are dropped, counted and logged.
func TestHangingChannelDropsNotices(t *testing.T) {
	t.Parallel()
	const tasks = 300
	release := make(chan struct{})
	var got atomic.Int64
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		<-release
		got.Add(1)
	}))
	t.Cleanup(hook.Close)
	place := filepath.Join(t.TempDir(), "url")
	require.NoError(t, os.WriteFile(place, []byte(hook.URL), 0o600))
	var log bytes.Buffer
	cfg := config(t)
	cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
	cfg.Tools.NotifyServices = map[string]settings.Secret{"ops": settings.Secret("file:" + place)}
	cfg.NotifyOn, cfg.NotifyTo = []string{"failed", "blocked", "approval"}, []string{"ops"}
	n := start(t, cfg)
	var ids []events.TaskID
	for range tasks {
		ids = append(ids, submit(t, n.API(), `{orch: v1, steps: [{id: a, tool: FILE_READ, with: {file_path: /none}}]}`))
	}
	for _, id := range ids {
		assert.Equal(t, statemachine.Failed, result(t, n.API(), id).State)
	}
	close(release)
	require.NoError(t, n.Stop(t.Context()))
	var dropped int64
	for _, m := range regexp.MustCompile(`notifications_dropped count=(\d+)`).FindAllStringSubmatch(log.String(), -1) {
		count, err := strconv.ParseInt(m[1], 10, 64)
		require.NoError(t, err)
		dropped += count
	}
	assert.Positive(t, dropped)
	assert.EqualValues(t, tasks, got.Load()+dropped)
}

// A node does not start with invalid settings, and the error names the key.
func TestUnusableSettings(t *testing.T) {
	t.Parallel()
	for field, change := range map[string]func(*node.Config){
		"search_key":          func(c *node.Config) { c.Tools.SearchKey = "env:ORCH_TEST_NO_SUCH_VARIABLE" },
		"notify_services.ops": func(c *node.Config) { c.Tools.NotifyServices = map[string]settings.Secret{"ops": "file:/no/such/file"} },
		"net_allow":           func(c *node.Config) { c.Tools.NetAllow = []string{"10.0.0.0/99"} },
		"notify_channels":     func(c *node.Config) { c.NotifyOn, c.NotifyTo = []string{"failed"}, []string{"fax"} },
	} {
		cfg := config(t)
		change(&cfg)
		_, err := node.Start(t.Context(), cfg)
		require.Error(t, err, field)
		assert.Equal(t, field, fault.From(err).Field)
	}
}

// The file of a secret cannot be read, also if the settings name a link to it.
func TestSecretBehindALinkIsHidden(t *testing.T) {
	t.Parallel()
	cfg := config(t)
	file, link := filepath.Join(cfg.Root, "real.txt"), filepath.Join(cfg.Root, "link.txt")
	require.NoError(t, os.WriteFile(file, []byte("correct-horse-battery"), 0o600))
	require.NoError(t, os.Symlink(file, link))
	cfg.Tools.SearchProvider, cfg.Tools.SearchURL, cfg.Tools.SearchKey = "searxng", "http://127.0.0.1:2", settings.Secret("file:"+link)
	n := start(t, cfg)
	for _, path := range []string{file, link} {
		read := run(t, n.API(), `{orch: v1, steps: [{id: a, tool: FILE_READ, with: {file_path: `+path+`}}]}`)
		assert.Equal(t, statemachine.Failed, read.State)
		assert.Equal(t, fault.ProtectedPath, read.Error.Code)
		shell := run(t, n.API(), `{orch: v1, steps: [{id: a, tool: BASH_EXECUTE, with: {command: "cat `+path+` 2>&1"}}], outputs: {all: "${{ steps.a.output.stdout }}"}}`)
		assert.Contains(t, string(shell.Output), "Permission denied")
		assert.NotContains(t, string(shell.Output), "horse")
	}
}
