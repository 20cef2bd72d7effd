package bus_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/bus/bustest"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/rpc"
)

func openTokens(t *testing.T, n *bustest.Node, cfg bus.TokensConfig) *bus.Tokens {
	t.Helper()
	tokens, err := n.OpenTokens(t.Context(), cfg)
	require.NoError(t, err)
	t.Cleanup(tokens.Close)
	return tokens
}

func agentToken(name string) bus.NewToken {
	return bus.NewToken{Name: name, Role: bus.RoleAgent, Actor: "user:ada"}
}

func assertCode(t *testing.T, want fault.Code, err error, about ...any) {
	t.Helper()
	assert.Equal(t, want, fault.CodeOf(err), about...)
}

func TestTokenIsGoodUntilItIsRevoked(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	n := bustest.NewNode(t, bus.ServerConfig{})
	tokens := openTokens(t, n, bus.TokensConfig{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	in := agentToken("builder")
	in.Life, in.Tools, in.ReadOnly = time.Hour, []string{"FILE_*", "GIT_STATUS"}, true
	token, secret := bustest.Issue(t, tokens, in)
	assert.Regexp(t, `^TOK_[0-9A-Z]{26}$`, token.ID)
	assert.Regexp(t, "^orch_[0-9A-Za-z]{43}$", secret, "256 bits")
	assert.Equal(t, time.Hour, token.ExpiresAt.Sub(token.CreatedAt))
	got, err := tokens.VerifyToken(secret)
	require.NoError(t, err)
	assert.Equal(t, token, got)
	assert.Equal(t, in.Tools, got.Tools)
	assert.True(t, got.ReadOnly)

	was, err := tokens.RevokeToken(t.Context(), bus.RevokeToken{Token: "builder", Actor: "user:ada"})
	require.NoError(t, err)
	assert.Equal(t, token, was)
	_, err = tokens.VerifyToken(secret)
	assertCode(t, fault.Unauthorized, err)
	_, err = tokens.RevokeToken(t.Context(), bus.RevokeToken{Token: token.ID, Actor: "user:ada"})
	assertCode(t, fault.NotFound, err)
	tokens.Close()
	assert.Contains(t, log.String(), "token_created token.id="+token.ID+" token.name=builder token.role=agent token.actor=user:ada")
	assert.Contains(t, log.String(), "token_revoked token.id="+token.ID)
	assert.NotContains(t, log.String(), secret)
}

// The secret is nowhere in the data directory.
func TestStoreHasNoSecrets(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	_, secret := bustest.Issue(t, openTokens(t, n, bus.TokensConfig{}), agentToken("builder"))
	n.Stop(t)
	seen := 0
	require.NoError(t, filepath.WalkDir(n.Config.DataDir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		seen += bytes.Count(data, []byte("name.6275696c646572")) // the key of builder
		assert.NotContains(t, string(data), secret, path)
		return err
	}))
	assert.NotZero(t, seen, "its record is there")
}

func TestTokensOutliveTheNode(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	tokens := openTokens(t, n, bus.TokensConfig{})
	kept, secret := bustest.Issue(t, tokens, agentToken("kept"))
	_, gone := bustest.Issue(t, tokens, agentToken("gone"))
	_, err := tokens.RevokeToken(t.Context(), bus.RevokeToken{Token: "gone", Actor: "user:ada"})
	require.NoError(t, err)
	tokens.Close()
	n.Stop(t)
	n.Start(t)
	tokens = openTokens(t, n, bus.TokensConfig{})
	got, err := tokens.VerifyToken(secret)
	require.NoError(t, err)
	assert.Equal(t, kept, got)
	_, err = tokens.VerifyToken(gone)
	assertCode(t, fault.Unauthorized, err)
	list, err := tokens.ListTokens(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []bus.Token{kept}, list)
	requireIntact(t, n)
}

func TestTokenExpires(t *testing.T) {
	t.Parallel()
	var now atomic.Pointer[time.Time]
	set := func(at time.Time) { now.Store(&at) }
	begin := time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	set(begin)
	tokens := openTokens(t, bustest.NewNode(t, bus.ServerConfig{}), bus.TokensConfig{Now: func() time.Time { return *now.Load() }})
	in := agentToken("builder")
	in.Life = time.Minute
	_, secret := bustest.Issue(t, tokens, in)
	set(begin.Add(time.Minute - time.Nanosecond))
	_, err := tokens.VerifyToken(secret)
	require.NoError(t, err)
	_, _, err = bus.IssueToken(t.Context(), tokens, in)
	assertCode(t, fault.Conflict, err, "the name is in use")
	set(begin.Add(time.Minute))
	_, err = tokens.VerifyToken(secret)
	assertCode(t, fault.TokenExpired, err)
	again, fresh := bustest.Issue(t, tokens, in)
	_, err = tokens.VerifyToken(secret)
	assertCode(t, fault.Unauthorized, err, "it was replaced")
	got, err := tokens.VerifyToken(fresh)
	require.NoError(t, err)
	assert.Equal(t, again, got)
}

// A context ends with the token that it hangs on.
func TestWhileATokenIsGood(t *testing.T) {
	t.Parallel()
	at := time.Now() // for this clock no token expires, however slow the machine is: the context ends by its own
	tokens := openTokens(t, bustest.NewNode(t, bus.ServerConfig{}), bus.TokensConfig{Now: func() time.Time { return at }})
	in := agentToken("short")
	in.Life = 20 * time.Millisecond
	_, secret := bustest.Issue(t, tokens, in)
	short, cancel := tokens.TokenContext(t.Context(), secret)
	t.Cleanup(cancel)
	<-short.Done()
	require.ErrorIs(t, short.Err(), context.DeadlineExceeded)

	token, secret := bustest.Issue(t, tokens, agentToken("long"))
	long, cancel := tokens.TokenContext(t.Context(), secret)
	t.Cleanup(cancel)
	require.NoError(t, long.Err())
	_, err := tokens.RevokeToken(t.Context(), bus.RevokeToken{Token: token.ID, Actor: "user:ada"})
	require.NoError(t, err)
	<-long.Done()
	require.ErrorIs(t, long.Err(), context.Canceled)

	other, cancel := tokens.TokenContext(t.Context(), "nobody's")
	cancel()
	require.NoError(t, other.Err(), "it was not this one's to end")

	gone, cancel := tokens.AgentContext(t.Context(), "AGT_NOBODY")
	t.Cleanup(cancel)
	require.ErrorIs(t, gone.Err(), context.Canceled, "what was removed a moment before waits for nothing")
}

func TestTokenNamesAreUnique(t *testing.T) {
	t.Parallel()
	tokens := openTokens(t, bustest.NewNode(t, bus.ServerConfig{}), bus.TokensConfig{})
	const rivals = 8
	secrets, errs := make([]string, rivals), make([]error, rivals)
	var done sync.WaitGroup
	for i := range rivals {
		done.Go(func() { _, secrets[i], errs[i] = bus.IssueToken(t.Context(), tokens, agentToken("one")) })
	}
	done.Wait()
	won := 0
	for i, err := range errs {
		if err == nil {
			won++
			_, err = tokens.VerifyToken(secrets[i])
			require.NoError(t, err)
			continue
		}
		assertCode(t, fault.Conflict, err)
		assert.Empty(t, secrets[i])
	}
	assert.Equal(t, 1, won)
	_, err := tokens.RevokeToken(t.Context(), bus.RevokeToken{Token: "one", Actor: "user:ada"})
	require.NoError(t, err)
	bustest.Issue(t, tokens, agentToken("one"))
}

func TestTokenInputs(t *testing.T) {
	t.Parallel()
	tokens := openTokens(t, bustest.NewNode(t, bus.ServerConfig{}), bus.TokensConfig{})
	for name, tc := range map[string]struct {
		spoil func(*bus.NewToken)
		want  fault.Code
	}{
		"no name":        {func(n *bus.NewToken) { n.Name = "" }, fault.InvalidFormat},
		"capitals":       {func(n *bus.NewToken) { n.Name = "Ada" }, fault.InvalidFormat},
		"a wildcard":     {func(n *bus.NewToken) { n.Name = "a.>" }, fault.InvalidFormat},
		"a newline":      {func(n *bus.NewToken) { n.Name = "a\n" }, fault.InvalidFormat},
		"a long name":    {func(n *bus.NewToken) { n.Name = strings.Repeat("a", 65) }, fault.InvalidFormat},
		"a role":         {func(n *bus.NewToken) { n.Role = "root" }, fault.ValidationError},
		"no role":        {func(n *bus.NewToken) { n.Role = "" }, fault.ValidationError},
		"a negative age": {func(n *bus.NewToken) { n.Life = -1 }, fault.ValidationError},
		"no actor":       {func(n *bus.NewToken) { n.Actor = "" }, fault.RequiredField},
		"a glob":         {func(n *bus.NewToken) { n.Tools = []string{"["} }, fault.InvalidFormat},
		"an empty glob":  {func(n *bus.NewToken) { n.Tools = []string{""} }, fault.InvalidFormat},
		"many globs":     {func(n *bus.NewToken) { n.Tools = make([]string, 65) }, fault.ValidationError},
	} {
		in := agentToken("fine")
		tc.spoil(&in)
		_, _, err := bus.IssueToken(t.Context(), tokens, in)
		assertCode(t, tc.want, err, name)
	}
	in := agentToken("fine")
	in.SHA256 = "00"
	_, err := tokens.CreateToken(t.Context(), in)
	assertCode(t, fault.InvalidFormat, err)
	list, err := tokens.ListTokens(t.Context())
	require.NoError(t, err)
	assert.Empty(t, list)
	for _, fine := range []string{"a", "a.b", "..", "-x_9", strings.Repeat("a", 64)} {
		bustest.Issue(t, tokens, agentToken(fine))
	}
}

// S4-002: a part of a secret, or a secret with additional text, is invalid.
func TestWhatIsNoToken(t *testing.T) {
	t.Parallel()
	tokens := openTokens(t, bustest.NewNode(t, bus.ServerConfig{}), bus.TokensConfig{})
	_, secret := bustest.Issue(t, tokens, agentToken("builder"))
	wrong := []string{
		"", " ", secret + " ", " " + secret, secret + "0", "Bearer " + secret, "orch_", strings.ToUpper(secret),
		strings.TrimPrefix(secret, "orch_"), secret + "\x00", secret + secret, secret[:47] + "!", "orcH_" + secret[5:],
	}
	for i := range secret {
		wrong = append(wrong, secret[:i], secret[i+1:], secret[:i]+"\x00"+secret[i+1:])
	}
	for _, text := range wrong {
		_, err := tokens.VerifyToken(text)
		assertCode(t, fault.Unauthorized, err, "%q", text)
		assert.NotContains(t, err.Error(), "orch_"+secret[5:20], "nothing that was sent is repeated")
	}
}

func FuzzVerifyToken(f *testing.F) {
	n := &bustest.Node{Config: bus.ServerConfig{DataDir: f.TempDir(), Durability: bus.Relaxed}}
	n.Start(f)
	tokens, err := n.OpenTokens(f.Context(), bus.TokensConfig{})
	require.NoError(f, err)
	f.Cleanup(func() { tokens.Close(); n.Stop(f) })
	_, secret, err := bus.IssueToken(f.Context(), tokens, agentToken("builder"))
	require.NoError(f, err)
	f.Add(secret)
	f.Add(secret[:47])
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		_, err := tokens.VerifyToken(text)
		if text == secret {
			require.NoError(t, err)
			return
		}
		require.True(t, fault.Has(err, fault.Unauthorized), "%q", text)
	})
}

func TestVerifyingTakesNoMemory(t *testing.T) { //nolint:paralleltest // it counts the allocations of the process
	tokens := openTokens(t, bustest.NewNode(t, bus.ServerConfig{}), bus.TokensConfig{})
	_, secret := bustest.Issue(t, tokens, agentToken("builder"))
	assert.Zero(t, testing.AllocsPerRun(1000, func() { _, _ = tokens.VerifyToken(secret) }))
}

// Two nodes on one store: what one revokes, the other refuses.
func TestTokensOfTwoNodes(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	here, there := openTokens(t, n, bus.TokensConfig{}), openTokens(t, n, bus.TokensConfig{})
	verdict := func(secret string, want fault.Code) func() bool {
		return func() bool { _, err := there.VerifyToken(secret); return fault.CodeOf(err) == want }
	}
	token, secret := bustest.Issue(t, here, agentToken("builder"))
	require.Eventually(t, verdict(secret, ""), time.Minute, time.Millisecond)
	_, err := here.RevokeToken(t.Context(), bus.RevokeToken{Token: token.ID, Actor: "user:ada"})
	require.NoError(t, err)
	require.Eventually(t, verdict(secret, fault.Unauthorized), time.Minute, time.Millisecond)
	_, again := bustest.Issue(t, there, agentToken("builder"))
	require.Eventually(t, func() bool { _, err := here.VerifyToken(again); return err == nil }, time.Minute, time.Millisecond)
	require.False(t, verdict(secret, "")(), "the old one stays revoked")
}

// A node elsewhere does the same with the credential of the operator, and nothing with that of workers.
func TestTokensOverTheBus(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	tokens := openTokens(t, n, bus.TokensConfig{})
	end, err := rpc.ServeTokens(n.Conn, tokens, rpc.EndpointConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, end.Close(context.WithoutCancel(t.Context()))) })
	remote := func(user string) *rpc.Remote {
		c, err := bus.Dial(t.Context(), bus.DialConfig{DataDir: n.Config.DataDir, User: user})
		require.NoError(t, err)
		t.Cleanup(c.Close)
		return rpc.NewRemote(c)
	}
	operator := remote(bus.OperatorUser)
	in := agentToken("builder")
	in.Life = time.Hour
	token, secret := bustest.Issue(t, operator, in)
	_, err = tokens.VerifyToken(secret)
	require.NoError(t, err)
	list, err := operator.ListTokens(t.Context())
	require.NoError(t, err)
	assert.Equal(t, []bus.Token{token}, list)
	_, _, err = bus.IssueToken(t.Context(), operator, in)
	assertCode(t, fault.Conflict, err)

	short, stop := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer stop()
	_, _, err = bus.IssueToken(short, remote(bus.WorkerUser), agentToken("mine"))
	require.Error(t, err)
	_, err = operator.RevokeToken(t.Context(), bus.RevokeToken{Token: "builder", Actor: "user:ada"})
	require.NoError(t, err)
	_, err = tokens.VerifyToken(secret)
	assertCode(t, fault.Unauthorized, err)
	list, err = operator.ListTokens(t.Context())
	require.NoError(t, err)
	assert.Empty(t, list, "the worker made none")
}

// Tokens are in a backup as digests, so they are good after a restore; the key of the node is not.
func TestTokensInABackup(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	tokens := openTokens(t, n, bus.TokensConfig{})
	token, secret := bustest.Issue(t, tokens, agentToken("builder"))
	key, err := n.FaceKey(t.Context())
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "a.backup")
	_, err = n.Backup(t.Context(), file, bus.BackupConfig{})
	require.NoError(t, err)
	back := &bustest.Node{Config: bus.ServerConfig{DataDir: filepath.Join(t.TempDir(), "data")}}
	_, err = bus.Restore(t.Context(), bus.RestoreConfig{File: file, DataDir: back.Config.DataDir})
	require.NoError(t, err)
	back.Start(t)
	t.Cleanup(func() { back.Stop(t) })
	got, err := openTokens(t, back, bus.TokensConfig{}).VerifyToken(secret)
	require.NoError(t, err)
	assert.Equal(t, token, got)
	other, err := back.FaceKey(t.Context())
	require.NoError(t, err)
	assert.NotEqual(t, key, other)
}

func TestLocalToken(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	tokens := openTokens(t, n, bus.TokensConfig{})
	local := bus.LocalToken{DataDir: n.Config.DataDir, User: `WORK\Ada Lovelace`}
	path := filepath.Join(n.Config.DataDir, bus.LocalTokenFile)
	secret := func() string {
		data, err := os.ReadFile(path)
		require.NoError(t, err)
		info, err := os.Stat(path)
		require.NoError(t, err)
		assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
		return strings.TrimSuffix(string(data), "\n")
	}
	require.NoError(t, local.Ensure(t.Context(), tokens, tokens))
	first := secret()
	token, err := tokens.VerifyToken(first)
	require.NoError(t, err)
	assert.Equal(t, local.User, token.Name)
	assert.Equal(t, bus.RoleOperator, token.Role)
	assert.Zero(t, token.ExpiresAt)

	require.NoError(t, os.Chmod(path, 0o644))
	require.NoError(t, local.Ensure(t.Context(), tokens, tokens))
	assert.Equal(t, first, secret(), "it stays")

	for name, spoil := range map[string]func(){
		"deleted": func() { require.NoError(t, os.Remove(path)) },
		"damaged": func() { require.NoError(t, os.WriteFile(path, []byte("orch_"), 0o600)) },
		"revoked": func() {
			list, err := tokens.ListTokens(t.Context())
			require.NoError(t, err)
			require.Len(t, list, 1)
			_, err = tokens.RevokeToken(t.Context(), bus.RevokeToken{Token: list[0].ID, Actor: "user:ada"})
			require.NoError(t, err)
		},
		"rotated": func() {
			_, err := local.Rotate(t.Context(), tokens)
			require.NoError(t, err)
		},
	} {
		before := secret()
		spoil()
		require.NoError(t, local.Ensure(t.Context(), tokens, tokens), name)
		assert.NotEqual(t, before, secret(), name)
		_, err = tokens.VerifyToken(before)
		assertCode(t, fault.Unauthorized, err, name)
		_, err = tokens.VerifyToken(secret())
		require.NoError(t, err, name)
	}
	list, err := tokens.ListTokens(t.Context())
	require.NoError(t, err)
	assert.Len(t, list, 1, "each one replaced the one before")

	elsewhere := bus.LocalToken{DataDir: t.TempDir(), User: local.User}
	require.NoError(t, elsewhere.Ensure(t.Context(), tokens, tokens))
	_, err = tokens.VerifyToken(secret())
	require.NoError(t, err, "another node has one of its own")
	_, err = tokens.RevokeToken(t.Context(), bus.RevokeToken{Token: local.User, Actor: "user:ada"})
	assertCode(t, fault.NotFound, err, "those are revoked by their ids alone")
}

// A node that loses its connection learns afterwards which tokens were revoked in the meantime.
func TestTokensAfterALostConnection(t *testing.T) {
	t.Parallel()
	n := bustest.NewNode(t, bus.ServerConfig{})
	here := openTokens(t, n, bus.TokensConfig{})
	p := bustest.NewProxy(t, n.Server.Addr())
	c, err := bus.Dial(t.Context(), bus.DialConfig{URL: p.Address(), DataDir: n.Config.DataDir})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	store, err := c.OpenStore(t.Context(), bus.StoreConfig{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close(context.WithoutCancel(t.Context()))) })
	there, err := store.OpenTokens(t.Context(), bus.TokensConfig{})
	require.NoError(t, err)
	t.Cleanup(there.Close)
	for range 5 {
		_, secret := bustest.Issue(t, here, agentToken("builder"))
		good := func() bool { _, err := there.VerifyToken(secret); return err == nil }
		require.Eventually(t, good, time.Minute, time.Millisecond)
		p.Deaf.Store(true)
		_, err = here.RevokeToken(t.Context(), bus.RevokeToken{Token: "builder", Actor: "user:ada"})
		require.NoError(t, err)
		require.True(t, good(), "it has not heard of it")
		p.Deaf.Store(false)
		p.Cut()
		require.Eventually(t, func() bool { return !good() }, time.Minute, time.Millisecond)
	}
}

// A secret belongs to one token, also when two are created at the same moment. Text that does not have the form of a secret is refused,
// whatever its digest: it would not be redacted in a log.
func TestDigestsAreThoseOfOneToken(t *testing.T) {
	t.Parallel()
	tokens := openTokens(t, bustest.NewNode(t, bus.ServerConfig{}), bus.TokensConfig{})
	secret := agents.NewSecret()
	made := make(chan error, 8)
	for i := range cap(made) {
		in := agentToken("builder" + strconv.Itoa(i))
		in.SHA256 = agents.DigestOf(secret)
		go func() {
			_, err := tokens.CreateToken(t.Context(), in)
			made <- err
		}()
	}
	good := 0
	for range cap(made) {
		if err := <-made; err == nil {
			good++
		} else {
			assertCode(t, fault.ValidationError, err)
		}
	}
	assert.Equal(t, 1, good)
	known, err := tokens.VerifyToken(secret)
	require.NoError(t, err)
	assert.True(t, tokens.HasDigest(known.ID, strings.ToUpper(agents.DigestOf(secret))))
	assert.False(t, tokens.HasDigest("TOK_2", agents.DigestOf(secret)))
	assert.False(t, tokens.HasDigest(known.ID, "00"))

	for _, text := range []string{secret[:47] + "-", secret[:46] + "é", "orch_" + strings.Repeat(" ", 43)} {
		in := agentToken("odd")
		in.SHA256 = agents.DigestOf(text)
		odd, err := tokens.CreateToken(t.Context(), in)
		require.NoError(t, err)
		_, err = tokens.VerifyToken(text)
		assertCode(t, fault.Unauthorized, err, text)
		_, err = tokens.RevokeToken(t.Context(), bus.RevokeToken{Token: odd.ID, Actor: "user:ada"})
		require.NoError(t, err)
	}
	assert.True(t, tokens.Revoked("odd"))
	assert.False(t, tokens.Revoked(known.Name))
	assert.False(t, tokens.Revoked("nobody"))
}
