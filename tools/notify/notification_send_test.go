package notify_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/pathguard"
	"github.com/orch-dev/orch/statemachine"
	"github.com/orch-dev/orch/tools"
	"github.com/orch-dev/orch/tools/notify"
	"github.com/orch-dev/orch/tools/toolstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type sent struct {
	Sent        bool
	DeliveredAt time.Time `json:"delivered_at"`
	Channels    []channel
}

type channel struct {
	Name  string
	OK    bool
	Error string
}

// bench is an environment that stores what a call recorded and logged.
type bench struct {
	env    *tools.Env
	logged []*events.Logged
	text   strings.Builder
}

func newBench(t *testing.T) *bench {
	t.Helper()
	root, err := pathguard.Open(t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { root.Close() })
	b := &bench{}
	b.env = &tools.Env{
		Task: "TASK_01JD0000000000000000000000", Step: "tell", Key: "TASK_01JD0000000000000000000000/tell", State: statemachine.Done, Root: root,
		Workspace: filepath.Join(root.Name(), "Working", "TASK_01JD0000000000000000000000"),
		Log:       slog.New(slog.NewTextHandler(&b.text, nil)), Now: time.Now,
		Progress: func(float64, float64, string) {},
		Record: func(_ events.Kind, p events.Payload) {
			if l, ok := p.(*events.Logged); ok {
				b.logged = append(b.logged, l)
			}
		},
	}
	require.NoError(t, os.MkdirAll(filepath.Join(b.env.Workspace, "outputs"), 0o755))
	return b
}

func (b *bench) send(t *testing.T, cfg notify.Config, args map[string]any) (sent, error) {
	t.Helper()
	all := map[string]any{"priority": "high", "subject": "Build broken", "message": "Step two\nfailed."}
	maps.Copy(all, args)
	raw, err := json.Marshal(all)
	require.NoError(t, err)
	tool := notify.Tools(cfg)[0]
	if raw, err = tool.Check(raw); err != nil {
		return sent{}, err
	}
	data, err := tool.Call(t.Context(), b.env, raw)
	var out sent
	if err == nil {
		toolstest.Output(t, tool, data)
		require.NoError(t, json.Unmarshal(data, &out))
	}
	return out, err
}

// S0-185: it was sent, and when.
func TestLogIsTheDefault(t *testing.T) {
	t.Parallel()
	for priority, level := range map[string]string{"low": "INFO", "medium": "INFO", "high": "WARN", "critical": "WARN"} {
		b := newBench(t)
		out, err := b.send(t, notify.Config{}, map[string]any{"priority": priority})
		require.NoError(t, err)
		assert.True(t, out.Sent)
		assert.WithinDuration(t, time.Now(), out.DeliveredAt, time.Minute)
		assert.Equal(t, []channel{{Name: "log", OK: true}}, out.Channels)
		require.Len(t, b.logged, 1)
		assert.Equal(t, level, b.logged[0].Level)
		assert.Equal(t, "Build broken: Step two\nfailed.", b.logged[0].Message)
		assert.JSONEq(t, `{"notification": "`+priority+`", "subject": "Build broken"}`, string(b.logged[0].Context))
		assert.Contains(t, b.text.String(), "level="+level+" msg=notification task=TASK_01JD0000000000000000000000")
	}
}

func TestFileAndBus(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	var got notify.Notice
	cfg := notify.Config{Default: []string{"file", "nats"}, Publish: func(_ context.Context, n notify.Notice) error { got = n; return nil }}
	for range 2 {
		out, err := b.send(t, cfg, nil)
		require.NoError(t, err)
		assert.Equal(t, []channel{{Name: "file", OK: true}, {Name: "nats", OK: true}}, out.Channels)
	}
	assert.Equal(t, "Build broken", got.Subject)
	assert.Equal(t, b.env.Key, got.Key)
	files, err := filepath.Glob(filepath.Join(b.env.Workspace, "outputs", "notifications", "*.json"))
	require.NoError(t, err)
	require.Len(t, files, 2)
	data, err := os.ReadFile(files[1])
	require.NoError(t, err)
	var n notify.Notice
	require.NoError(t, json.Unmarshal(data, &n))
	assert.Equal(t, got, n)
	assert.Empty(t, b.logged)
}

// The programs of the task may have put a link in place of the folder for notifications.
func TestFileStaysInTheWorkspace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other := filepath.Join(b.env.Root.Name(), "other")
	require.NoError(t, os.Mkdir(other, 0o755))
	require.NoError(t, os.Symlink(other, filepath.Join(b.env.Workspace, "outputs", "notifications")))
	_, err := b.send(t, notify.Config{}, map[string]any{"subject": "s", "message": "m", "priority": "low", "channels": []string{"file"}})
	require.Error(t, err)
	left, err := os.ReadDir(other)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	var got notify.Notice
	status := http.StatusNoContent
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "/hook/hunter2", r.URL.Path)
		assert.Equal(t, "application/json", r.Header.Get("Content-Type"))
		assert.NoError(t, json.NewDecoder(r.Body).Decode(&got))
		assert.Equal(t, got.Key, r.Header.Get("Idempotency-Key"))
		if status == http.StatusFound {
			w.Header().Set("Location", "/elsewhere")
		}
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	cfg := notify.Config{Channels: map[string]string{"ops": s.URL + "/hook/hunter2"}}
	b := newBench(t)
	out, err := b.send(t, cfg, map[string]any{"channels": []string{"ops"}})
	require.NoError(t, err)
	assert.True(t, out.Sent)
	assert.Equal(t, notify.Notice{
		Task: b.env.Task, Step: "tell", Key: b.env.Key, Priority: "high", Subject: "Build broken", Message: "Step two\nfailed.", At: got.At,
	}, got)
	for _, status = range []int{500, 404} {
		_, err = b.send(t, cfg, map[string]any{"channels": []string{"ops"}})
		e := fault.From(err)
		require.NotNil(t, e, status)
		assert.Equal(t, fault.NetworkError, e.Code)
		assert.Equal(t, "DELIVERY_FAILED", e.Reason)
		assert.Contains(t, e.Message, fmt.Sprint("status ", status))
	}
}

// the result of each channel is returned; the call fails when no channel accepted the notification. No URL is
// shown.
func TestPartialFailure(t *testing.T) {
	t.Parallel()
	cfg := notify.Config{
		Channels: map[string]string{
			"down": "http://127.0.0.1:2/hunter2", "bad": "http://[hunter2", "strange": "hunter2://hunter2", "chat": "gotify://127.0.0.1:2/hunter2",
			"slack": "slack://hunter2@hunter2", "mail": "smtp://a:hunter2@127.0.0.1:2/?from=a@b.example&to=c@d.example",
		},
		Publish: func(context.Context, notify.Notice) error { return errors.New("hunter2") },
	}
	failing := []string{"down", "bad", "strange", "chat", "slack", "mail", "nats"}
	b := newBench(t)
	out, err := b.send(t, cfg, map[string]any{"channels": append([]string{"log", "log"}, failing...)})
	require.NoError(t, err)
	assert.True(t, out.Sent)
	require.Len(t, out.Channels, 1+len(failing), "each channel once")
	for _, c := range out.Channels {
		assert.Equal(t, c.Name == "log", c.OK, c.Name)
		assert.Equal(t, c.OK, c.Error == "", c.Name)
	}
	assert.NotContains(t, fmt.Sprint(out), "hunter2")
	assert.Len(t, b.logged, 1)

	_, err = b.send(t, cfg, map[string]any{"channels": failing})
	assert.Equal(t, fault.NetworkError, fault.CodeOf(err))
	for _, name := range failing {
		require.ErrorContains(t, err, name+" (")
	}
	assert.NotContains(t, err.Error()+b.text.String(), "hunter2")
	assert.NotContains(t, err.Error(), "127.0.0.1")
}

// S0-185, A-49: an unknown channel stops the call.
func TestWrongInput(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for field, args := range map[string]map[string]any{
		"channels[1]": {"channels": []string{"log", "fax"}},
		"channels[0]": {"channels": []string{"nats"}},
		"priority":    {"priority": "urgent"},
		"subject":     {"subject": "a\r\nBcc: all@example.com"},
		"message":     {"message": ""},
	} {
		_, err := b.send(t, notify.Config{}, args)
		e := fault.From(err)
		require.NotNil(t, e, field)
		assert.Contains(t, []fault.Code{fault.ValidationError, fault.InvalidFormat}, e.Code, field)
		assert.Equal(t, field, e.Field)
	}
	assert.Empty(t, b.logged, "an unknown channel stops the call before anything is sent")
}

// smtpServer accepts one mail and returns it.
func smtpServer(t *testing.T) (address string, mail <-chan string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	got := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			close(got)
			return
		}
		got <- dialogue(conn)
		assert.NoError(t, conn.Close())
	}()
	return l.Addr().String(), got
}

func dialogue(conn io.ReadWriter) string {
	say := func(line string) { _, _ = io.WriteString(conn, line+"\r\n") } // a failed write fails the client
	r := bufio.NewReader(conn)
	say("220 mail.example")
	for {
		line, err := r.ReadString('\n')
		switch {
		case err != nil:
			return ""
		case strings.HasPrefix(line, "DATA"):
			say("354 go on")
			var mail strings.Builder
			for line != ".\r\n" && err == nil {
				line, err = r.ReadString('\n')
				mail.WriteString(line)
			}
			say("250 taken")
			if line, err = r.ReadString('\n'); err == nil && strings.HasPrefix(line, "QUIT") {
				say("221 bye")
			}
			return mail.String()
		default:
			say("250 yes")
		}
	}
}

func TestMail(t *testing.T) {
	t.Parallel()
	address, mail := smtpServer(t)
	cfg := notify.Config{Channels: map[string]string{"mail": "smtp://" + address + "/?from=orch@a.example&to=ops@b.example&starttls=no"}}
	out, err := newBench(t).send(t, cfg, map[string]any{"channels": []string{"mail"}})
	require.NoError(t, err)
	assert.True(t, out.Sent)
	text := <-mail
	assert.Contains(t, text, "Subject: Build broken\r\n")
	assert.Contains(t, text, "ops@b.example")
	assert.Contains(t, text, "Step two")
	assert.Contains(t, text, "Priority: high")
}

// A service that never answers blocks nobody, and only a few deliveries wait for it.
func TestHangingService(t *testing.T) {
	t.Parallel()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	conns := make(chan net.Conn, 8)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				close(conns)
				return
			}
			conns <- conn
		}
	}()
	tool := notify.Tools(notify.Config{Channels: map[string]string{"mail": "smtp://" + l.Addr().String() + "/?from=a@a.example&to=b@b.example"}})[0]
	args := json.RawMessage(`{"priority": "low", "subject": "s", "message": "m", "channels": ["mail"]}`)
	for range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, err = tool.Call(ctx, newBench(t).env, args)
		cancel()
		assert.Equal(t, fault.Timeout, fault.CodeOf(err))
	}
	_, err = tool.Call(t.Context(), newBench(t).env, args)
	require.ErrorContains(t, err, "still pending")
	require.NoError(t, l.Close())
	for conn := range conns {
		assert.NoError(t, conn.Close())
	}
}
