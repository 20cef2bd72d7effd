package bus_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/hooks"
)

// restricted starts a NATS server whose user orch has the documented permissions but one, and whose user admin has all. It returns the
// addresses of both.
func restricted(t *testing.T, without string) (orch, admin string) {
	t.Helper()
	text := bustest.DocumentedPermissions(t, "..")
	if without != "" {
		require.Contains(t, text, `"`+without+`"`)
		text = strings.ReplaceAll(text, `"`+without+`"`, `"none"`)
	}
	text += fmt.Sprintf("\nlisten: \"127.0.0.1:-1\"\njetstream {store_dir: %q}\n", t.TempDir()) +
		"authorization {users: [{user: orch, password: a, permissions: $ORCH_PERMISSIONS}, {user: admin, password: b}]}\n"
	file := filepath.Join(t.TempDir(), "nats.conf")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	opts, err := server.ProcessConfigFile(file)
	require.NoError(t, err)
	opts.NoSigs, opts.NoLog = true, true
	s, err := server.NewServer(opts)
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	require.True(t, s.ReadyForConnections(time.Minute))
	return strings.Replace(s.ClientURL(), "://", "://orch:a@", 1), strings.Replace(s.ClientURL(), "://", "://admin:b@", 1)
}

// takeOne takes a message of a stream as a hook does.
func takeOne(t *testing.T, feeds *bus.Feeds) error {
	t.Helper()
	c := hooks.Consumer{Stream: "ORDERS", Subject: "orders.*", Name: "orch-HOOK_1"}
	if _, err := feeds.Now(t.Context(), c.Stream); err != nil {
		return err
	}
	feed, err := feeds.Open(t.Context(), c)
	if err != nil {
		return err
	}
	if _, err := feeds.Waiting(t.Context(), c); err != nil {
		return err
	}
	m, err := feed.Next(t.Context())
	if err != nil {
		return err
	}
	require.NotNil(t, m)
	if err := m.Done(t.Context()); err != nil {
		return err
	}
	return feeds.Remove(t.Context(), c)
}

// With the documented permissions a hook takes its messages. Without one of them it says at once which subject is denied.
func TestDeniedFeed(t *testing.T) {
	t.Parallel()
	for without, subject := range map[string]string{
		"":                                   "",
		"$JS.API.STREAM.INFO.ORDERS":         "publish to $JS.API.STREAM.INFO.ORDERS",
		"$JS.API.CONSUMER.*.ORDERS.>":        "publish to $JS.API.CONSUMER.INFO.ORDERS.orch-HOOK_1",
		"$JS.API.CONSUMER.MSG.NEXT.ORDERS.>": "publish to $JS.API.CONSUMER.MSG.NEXT.ORDERS.orch-HOOK_1",
		"$JS.ACK.ORDERS.>":                   "publish to $JS.ACK.ORDERS.orch-HOOK_1.",
	} {
		t.Run(without, func(t *testing.T) {
			t.Parallel()
			url, admin := restricted(t, without)
			bustest.NewStream(t, admin, "ORDERS", "orders.>").Publish(t, "orders.a", "1")
			c, err := bus.Dial(t.Context(), bus.DialConfig{URL: url})
			require.NoError(t, err)
			t.Cleanup(c.Close)
			began := time.Now()
			err = takeOne(t, c.Feeds())
			if subject == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, fault.Has(err, fault.Forbidden), "%v", err)
			assert.Contains(t, err.Error(), "the NATS server does not let the credential of orch "+subject)
			assert.Equal(t, bus.ReasonDenied, fault.From(err).Reason)
			assert.Less(t, time.Since(began), 4*time.Second, "it does not wait for an answer")
		})
	}
}

// A store that the credential may not use is not opened, and the error names the subject.
func TestDeniedStore(t *testing.T) {
	t.Parallel()
	for without, subject := range map[string]string{
		"":                                "",
		"$JS.API.*.*.ORCH_EVENTS":         "publish to $JS.API.STREAM.INFO.ORCH_EVENTS",
		"$JS.API.*.*.KV_ORCH_CHECKPOINTS": "publish to $JS.API.STREAM.UPDATE.KV_ORCH_CHECKPOINTS",
		"$JS.API.*.*.ORCH_JOURNAL_AUDIT":  "",
	} {
		t.Run(without, func(t *testing.T) {
			t.Parallel()
			url, _ := restricted(t, without)
			c, err := bus.Dial(t.Context(), bus.DialConfig{URL: url})
			require.NoError(t, err)
			t.Cleanup(c.Close)
			store, err := c.OpenStore(t.Context(), bus.StoreConfig{HighWaterFile: filepath.Join(t.TempDir(), "mark")})
			if subject == "" {
				require.NoError(t, err)
				require.NoError(t, store.Close(t.Context()))
				return
			}
			require.True(t, fault.Has(err, fault.Forbidden), "%v", err)
			assert.Contains(t, err.Error(), subject)
		})
	}
}

// What a server says about a denied subject is read, and any other error is none.
func TestDeniedSubject(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`Permissions Violation for Publish to "$JS.API.INFO"`:                       "publish to $JS.API.INFO",
		`permissions violation for subscription to "orch.cmd.*" using queue "orch"`: "subscribe to orch.cmd.*",
		`Permissions Violation`: "",
	} {
		act, subject, ok := bus.Denied(fmt.Errorf("%w: %s", nats.ErrPermissionViolation, text))
		assert.Equal(t, want != "", ok, text)
		assert.Equal(t, want, strings.TrimSpace(act+" "+subject))
	}
	_, _, ok := bus.Denied(errors.New(`Permissions Violation for Publish to "x"`))
	assert.False(t, ok, "another error")
}

// FuzzDeniedSubject checks that a subject is part of what the server has said.
func FuzzDeniedSubject(f *testing.F) {
	f.Add(`Permissions Violation for Publish to "a.b"`)
	f.Add(`permissions violation for subscription to ""`)
	f.Fuzz(func(t *testing.T, text string) {
		_, subject, ok := bus.Denied(fmt.Errorf("%w: %s", nats.ErrPermissionViolation, text))
		assert.Equal(t, ok, subject != "")
		assert.Contains(t, text, subject)
	})
}
