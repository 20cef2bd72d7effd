package bus

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/fault"
)

// TokensConfig configures the list of tokens of a node.
type TokensConfig struct {
	// Now is the clock. Default: time.Now.
	Now func() time.Time
	// Logger logs the creation and revocation of tokens, with the actor; nil discards it.
	Logger *slog.Logger
}

// Tokens is a node's list of bearer tokens. It is updated when other nodes change the tokens. While the node is
// disconnected from its server, the list does not change. It is safe for concurrent use.
type Tokens struct {
	store *Store
	now   func() time.Time
	log   *slog.Logger
	end   context.CancelFunc
	ended chan struct{}

	mu sync.RWMutex // guards the fields below
	// agents are the tokens of registered agents, by agent id.
	agents map[string]*tokenRecord
	// onInvalid is called for each token that is revoked or replaced. renewed reports whether a new token of the same agent replaces it.
	onInvalid func(token Token, renewed bool)
	// keys contains every key of the bucket; the key of a revoked token stays, without a record.
	keys map[string]keyRecord
	sums map[tokenDigest]*tokenRecord
	// reserved are the digests of tokens that are being created.
	reserved map[tokenDigest]bool
}

// tokenDigest is the digest of a secret.
type tokenDigest [sha256.Size]byte

// keyRecord is the newest record of a key.
type keyRecord struct {
	revision uint64
	record   *tokenRecord // nil for a revoked token
}

// OpenTokens reads the tokens of the store and follows changes until Close. UNAVAILABLE if the tokens cannot be read.
func (s *Store) OpenTokens(ctx context.Context, cfg TokensConfig) (*Tokens, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	t := &Tokens{
		store: s, now: cfg.Now, log: cfg.Logger, ended: make(chan struct{}),
		keys: map[string]keyRecord{}, sums: map[tokenDigest]*tokenRecord{}, agents: map[string]*tokenRecord{},
		reserved: map[tokenDigest]bool{},
	}
	follow, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.end = stop
	ready := make(chan error, 1)
	go t.follow(follow, ready)
	select {
	case err := <-ready:
		if err != nil {
			t.Close()
			return nil, sideFault(err, "the tokens cannot be read")
		}
		return t, nil
	case <-ctx.Done():
		t.Close()
		return nil, fault.From(ctx.Err())
	}
}

// Close stops following the bucket. It is idempotent.
func (t *Tokens) Close() {
	t.end()
	<-t.ended
}

// followAgain is how long to wait before a lost watch is started again.
const followAgain = 250 * time.Millisecond

// follow watches the bucket until ctx ends, and restarts the watch after each loss of the connection. It sends one value
// to ready: nil once the current content is read, or the first error.
func (t *Tokens) follow(ctx context.Context, ready chan<- error) {
	defer close(t.ended)
	tick := time.NewTicker(followAgain)
	defer tick.Stop()
	reported := false
	report := func(err error) {
		if !reported {
			reported = true
			ready <- err
		}
	}
	for ctx.Err() == nil {
		err := t.watch(ctx, func() { report(nil) })
		if err != nil && ctx.Err() == nil {
			report(err)
			t.log.LogAttrs(ctx, slog.LevelDebug, "tokens_not_followed", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// watch reads the bucket and then its changes until ctx ends or the connection is lost. It calls ready once the current
// content is read. The server may lag behind the leader of a replicated bucket: new tokens are then missing, and
// revoked ones still listed. So watch waits until the newest revision of the leader has arrived.
func (t *Tokens) watch(ctx context.Context, ready func()) error {
	newest, err := t.leaderRevision(ctx)
	if err != nil {
		return err
	}
	lost := make(chan struct{})
	stop := t.store.conn.link.onLoss(func() { close(lost) })
	defer stop()
	w, err := t.store.tokens.WatchAll(ctx)
	if err != nil {
		return err
	}
	defer func() {
		_ = w.Stop() // only fails on a closed connection
		for range w.Updates() {
		} // without a reader, a goroutine of the library would block forever
	}()
	for complete, revision := false, uint64(0); ; {
		select {
		case <-ctx.Done():
			return nil
		case <-lost:
			return nil
		case e, ok := <-w.Updates():
			switch {
			case !ok:
				return nil
			case e == nil:
				complete = true
			default:
				t.applyEntry(ctx, e)
				revision = max(revision, e.Revision())
			}
			if complete && revision >= newest {
				ready()
			}
		}
	}
}

// leaderRevision returns the newest revision on the leader of a replicated bucket; 0 if there is only one server.
func (t *Tokens) leaderRevision(ctx context.Context) (uint64, error) {
	c := t.store.conn
	if !c.replicated.Load() {
		return 0, nil
	}
	newest, err := c.requestLeader(ctx, tokensStream, map[string]any{"last_by_subj": ">"})
	if err != nil || newest == nil {
		return 0, err
	}
	return newest.Seq, nil
}

// applyEntry applies a change of the bucket. A record that cannot be decoded counts as a revoked token.
func (t *Tokens) applyEntry(ctx context.Context, e jetstream.KeyValueEntry) {
	if e.Operation() != jetstream.KeyValuePut {
		t.apply(e.Key(), e.Revision(), nil)
		return
	}
	r := new(tokenRecord)
	if err := json.Unmarshal(e.Value(), r); err != nil {
		t.log.LogAttrs(ctx, slog.LevelWarn, "token_not_readable", slog.String("key", e.Key()))
		r = nil
	}
	t.apply(e.Key(), e.Revision(), r)
}

// apply sets the record of a key, unless the key already has a newer revision. The previous token of the key becomes
// invalid. r is nil for a revoked token.
func (t *Tokens) apply(key string, revision uint64, r *tokenRecord) {
	was, notify := t.replace(key, revision, r)
	if was != nil && notify != nil {
		notify(was.Token, r.renews(was))
	}
}

// renews reports whether r is a token of the same agent as was.
func (r *tokenRecord) renews(was *tokenRecord) bool {
	return r != nil && was != nil && r.Agent != nil && was.Agent != nil && r.Agent.ID == was.Agent.ID
}

// replace sets the record of a key. It returns the previous record, nil if there is none, and the function to call for
// that token, which may be nil.
func (t *Tokens) replace(key string, revision uint64, r *tokenRecord) (*tokenRecord, func(Token, bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.keys[key]
	if revision <= was.revision {
		return nil, nil
	}
	if was.record != nil {
		t.invalidate(was.record)
	}
	t.keys[key] = keyRecord{revision, r}
	if r == nil {
		return was.record, t.onInvalid
	}
	r.done = make(chan struct{})
	if r.renews(was.record) {
		r.renewed = time.Now()
	}
	if sum, ok := r.digest(); ok {
		t.sums[sum] = r
	}
	if r.Agent != nil {
		if t.agents == nil {
			t.agents = map[string]*tokenRecord{}
		}
		t.agents[r.Agent.ID] = r
	}
	return was.record, t.onInvalid
}

// invalidate removes a token and closes its done. t.mu must be held.
func (t *Tokens) invalidate(r *tokenRecord) {
	if sum, _ := r.digest(); t.sums[sum] == r {
		delete(t.sums, sum)
	}
	if r.Agent != nil && t.agents[r.Agent.ID] == r {
		delete(t.agents, r.Agent.ID)
	}
	close(r.done)
}

// digest decodes the digest of the secret; false if it is invalid.
func (r *tokenRecord) digest() (sum tokenDigest, ok bool) {
	n, err := hex.Decode(sum[:], []byte(r.SHA256)[:min(len(r.SHA256), 2*len(sum))])
	return sum, err == nil && n == len(sum)
}

// HasDigest reports whether there is a token with this id and, in hex, this digest of its secret.
func (t *Tokens) HasDigest(id, digest string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r := t.sums[digestIn(digest)]
	return r != nil && r.ID == id
}

// Operator returns the identity, such as user:ada, and the id of the operator's token whose secret has a digest, in hex. Errors:
// UNAUTHORIZED, TOKEN_EXPIRED, and FORBIDDEN for a token with another role or with restrictions.
func (t *Tokens) Operator(digest string) (identity, id string, err error) {
	t.mu.RLock()
	r := t.sums[digestIn(digest)]
	t.mu.RUnlock()
	if r == nil {
		return "", "", unknownToken()
	}
	if err := r.checkExpiry(t.now()); err != nil {
		return "", "", err
	}
	return "user:" + r.Name, r.ID, r.checkOperator()
}

// reserve reserves a digest until free is called, so that no other call can create a token with it. VALIDATION_ERROR if
// the digest is in use or reserved.
func (t *Tokens) reserve(digest string) (free func(), err error) {
	sum := digestIn(digest)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sums[sum] != nil || t.reserved[sum] {
		return nil, fault.New(fault.ValidationError, "is the digest of another token").WithField("sha256").WithHint("make a secret at random")
	}
	t.reserved[sum] = true
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.reserved, sum)
	}, nil
}

// digestIn decodes a digest in hex. For invalid text it returns an incomplete digest, which no secret has.
func digestIn(text string) tokenDigest {
	sum, _ := (&tokenRecord{SHA256: text}).digest()
	return sum
}

// count returns the number of tokens, including expired ones.
func (t *Tokens) count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.sums)
}

// VerifyToken returns the token of a secret. It looks up the digest of the secret, so that the time of the lookup reveals
// nothing about secrets, and compares the digest in constant time (S4-003). Errors: UNAUTHORIZED if no token has the
// secret, TOKEN_EXPIRED.
func (t *Tokens) VerifyToken(secret string) (Token, error) {
	r, err := t.verify(secret)
	if err != nil {
		return Token{}, err
	}
	return r.Token, nil
}

// TokenContext returns a context that ends when the token expires, is revoked or is replaced. It limits long answers to the
// token's user. If no valid token has the secret, it returns ctx. The caller must call cancel.
func (t *Tokens) TokenContext(ctx context.Context, secret string) (valid context.Context, cancel context.CancelFunc) {
	r, err := t.verify(secret)
	if err != nil {
		return ctx, func() {}
	}
	return r.whileValid(ctx)
}

// Token returns the valid token with an id, or that a person created with a name. Errors: NOT_FOUND, TOKEN_EXPIRED.
func (t *Tokens) Token(text string) (Token, error) {
	r, err := t.named(text)
	if err != nil {
		return Token{}, err
	}
	return r.Token, nil
}

// IDContext is like TokenContext for the token with an id. If there is no such valid token, it returns a cancelled context.
func (t *Tokens) IDContext(ctx context.Context, id string) (valid context.Context, cancel context.CancelFunc) {
	r, err := t.named(id)
	if err != nil || r.ID != id {
		valid, cancel = context.WithCancel(ctx)
		cancel()
		return valid, cancel
	}
	return r.whileValid(ctx)
}

func (t *Tokens) named(text string) (*tokenRecord, error) {
	_, h := t.find(text)
	if h.record == nil {
		return nil, fault.New(fault.NotFound, "there is no token with that id or name").WithField("token").WithHint("see: orch token list")
	}
	return h.record, h.record.checkExpiry(t.now())
}

// whileValid returns a context that ends when the token expires, is revoked or is replaced.
func (r *tokenRecord) whileValid(ctx context.Context) (valid context.Context, cancel context.CancelFunc) {
	if r.ExpiresAt.IsZero() {
		valid, cancel = context.WithCancel(ctx)
	} else {
		valid, cancel = context.WithDeadline(ctx, r.ExpiresAt)
	}
	go func() {
		select {
		case <-r.done:
			cancel()
		case <-valid.Done():
		}
	}()
	return valid, cancel
}

// verify returns the record of the token that has a secret, or an error as VerifyToken does.
func (t *Tokens) verify(secret string) (*tokenRecord, error) {
	if !agents.IsSecret(secret) {
		return nil, unknownToken()
	}
	var text [agents.SecretLength]byte
	copy(text[:], secret)
	sum := tokenDigest(sha256.Sum256(text[:]))
	t.mu.RLock()
	r := t.sums[sum]
	t.mu.RUnlock()
	if r == nil {
		return nil, unknownToken()
	}
	if known, ok := r.digest(); !ok || subtle.ConstantTimeCompare(known[:], sum[:]) != 1 {
		return nil, unknownToken()
	}
	return r, r.checkExpiry(t.now())
}

// checkExpiry returns TOKEN_EXPIRED for an expired token.
func (r *tokenRecord) checkExpiry(now time.Time) error {
	if r.Expired(now) {
		return fault.New(fault.TokenExpired, "the token %s has expired", r.ID).WithHint("make a new one: orch token create")
	}
	return nil
}

func unknownToken() error {
	return fault.New(fault.Unauthorized, "this is not a valid token of the node").WithHint("make one: orch token create")
}

// tokenAttr returns the log attributes of a token and of the actor who changed it.
func tokenAttr(t Token, actor string) slog.Attr {
	return slog.Group("token", slog.String("id", t.ID), slog.String("name", t.Name), slog.String("role", t.Role), slog.String("actor", actor))
}
