package bus_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

func TestSessionsAreKept(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	load := func(id string) string {
		data, err := n.LoadSession(t.Context(), id)
		require.NoError(t, err)
		return string(data)
	}
	strange := []string{"", ".", ">", "*", "a b", "a.b", "\x00", "ü", strings.Repeat("x", 1<<16)}
	for i, id := range strange {
		assert.Empty(t, load(id))
		require.NoError(t, n.SaveSession(t.Context(), id, []byte("old")))
		require.NoError(t, n.SaveSession(t.Context(), id, []byte(strconv.Itoa(i))))
	}
	require.NoError(t, n.SaveSession(t.Context(), "short", []byte("life")))
	require.NoError(t, n.DeleteSession(t.Context(), "short"))
	require.NoError(t, n.DeleteSession(t.Context(), "never"))
	n.Stop(t)
	n.Start(t)
	for i, id := range strange {
		assert.Equal(t, strconv.Itoa(i), load(id))
	}
	assert.Empty(t, load("short"))
	requireIntact(t, n)
}

func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	require.NoError(t, n.SaveSession(t.Context(), "a", make([]byte, 64<<10)))
	err := n.SaveSession(t.Context(), "a", make([]byte, 64<<10+1))
	assert.Equal(t, fault.ValidationError, fault.CodeOf(err))
	js, err := n.Conn.NATS().JetStream()
	require.NoError(t, err)
	info, err := js.StreamInfo("KV_ORCH_SESSIONS")
	require.NoError(t, err)
	assert.Equal(t, 7*24*time.Hour, info.Config.MaxAge)
	full := 0
	for i := range 2000 {
		if err = n.SaveSession(t.Context(), strconv.Itoa(i), make([]byte, 64<<10)); err != nil {
			full = i
			break
		}
	}
	assert.Equal(t, fault.QuotaExceeded, fault.CodeOf(err))
	assert.InDelta(t, 1000, full, 50, "64 MiB of 64 KiB each")
}

// Damaged sessions need no restore: the node starts without them, and reports it.
func TestDamagedSessionsAreDropped(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	for _, id := range []string{"a", "b", "c"} {
		require.NoError(t, n.SaveSession(t.Context(), id, bytes.Repeat([]byte(id), 1000)))
	}
	file := streamFiles(t, n, "KV_ORCH_SESSIONS", "*.blk")[0]
	n.Stop(t)
	data, err := os.ReadFile(file)
	require.NoError(t, err)
	data[len(data)/3] ^= 1
	require.NoError(t, os.WriteFile(file, data, 0o600))
	report, err := bus.Inspect(t.Context(), n.Config.DataDir)
	require.NoError(t, err)
	assert.Zero(t, report.Found)
	require.Len(t, report.Mended, 1)
	assert.Equal(t, "KV_ORCH_SESSIONS", report.Mended[0].Stream)
	n.Start(t)
	got, err := n.LoadSession(t.Context(), "a")
	require.NoError(t, err)
	assert.Empty(t, got)
	require.NoError(t, n.SaveSession(t.Context(), "a", []byte("x")))
	requireIntact(t, n)
}

// Lost tokens are a loss: one that was revoked could be good again.
func TestDamagedTokensAreNamed(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	tokens := openTokens(t, n, bus.TokensConfig{})
	bustest.Issue(t, tokens, agentToken("a"))
	_, err := tokens.RevokeToken(t.Context(), bus.RevokeToken{Token: "a", Actor: "user:ada"})
	require.NoError(t, err)
	tokens.Close()
	n.Stop(t)
	require.NoError(t, os.RemoveAll(filepath.Join(n.Config.DataDir, "nats", "jetstream", "$G", "streams", "KV_ORCH_TOKENS")))
	_, err = bus.StartServer(t.Context(), n.Config)
	assert.Equal(t, fault.DataLoss, fault.CodeOf(err))
}

// The secrets of hooks outlive the node. A backup does not contain them.
func TestHookSecrets(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	none, err := n.HookSecrets(t.Context())
	require.NoError(t, err)
	assert.Empty(t, none)
	first, second := events.NewHookID(time.Unix(1, 0)), events.NewHookID(time.Unix(2, 0))
	require.NoError(t, n.SetHookSecret(t.Context(), first, []byte("old")))
	require.NoError(t, n.SetHookSecret(t.Context(), first, []byte("new")))
	require.NoError(t, n.SetHookSecret(t.Context(), second, []byte("gone")))
	require.NoError(t, n.SetHookSecret(t.Context(), second, nil))
	require.NoError(t, n.SetHookSecret(t.Context(), second, nil), "twice")
	assert.True(t, fault.Has(n.SetHookSecret(t.Context(), "HOOK_*", nil), fault.InvalidFormat))
	n.Stop(t)
	n.Start(t)
	all, err := n.HookSecrets(t.Context())
	require.NoError(t, err)
	assert.Equal(t, map[string][]byte{first: []byte("new")}, all)
	file := filepath.Join(t.TempDir(), "a.backup")
	_, err = n.Backup(t.Context(), file, bus.BackupConfig{})
	require.NoError(t, err)
	back := &bustest.Node{Config: bus.ServerConfig{DataDir: filepath.Join(t.TempDir(), "data")}}
	_, err = bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: back.Config.DataDir})
	require.NoError(t, err)
	back.Start(t)
	t.Cleanup(func() { back.Stop(t) })
	none, err = back.HookSecrets(t.Context())
	require.NoError(t, err)
	assert.Empty(t, none)
	requireIntact(t, n)
}

func TestFaceKey(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	first, err := n.FaceKey(t.Context())
	require.NoError(t, err)
	assert.Len(t, first, 32)
	assert.NotEqual(t, make([]byte, 32), first)
	n.Stop(t)
	n.Start(t)
	second, err := n.FaceKey(t.Context())
	require.NoError(t, err)
	assert.Equal(t, first, second)
	requireIntact(t, n)
}
