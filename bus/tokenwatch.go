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
	// Logger gets who made and who revoked which token; nil discards it.
	Logger *slog.Logger
}

// Tokens is the list of bearer tokens that a node knows, and which it follows as other nodes change it. A node that
// has lost its server knows what it knew before. It is safe for concurrent use.
type Tokens struct {
	store *Store
	now   func() time.Time
	log   *slog.Logger
	end   context.CancelFunc
	ended chan struct{}

	mu sync.RWMutex // guards what follows
	// agents are the tokens of registered agents, by the ids of those.
	agents map[string]*tokenRecord
	// onInvalid is told each token that is good no longer, and whether another one of the same agent is in its place.
	onInvalid func(token Token, renewed bool)
	// keys has every key of the bucket; that of a revoked token stays, without a record.
	keys map[string]keyRecord
	sums map[tokenDigest]*tokenRecord
	// reserved are the digests of tokens that are being made.
	reserved map[tokenDigest]bool
}

// tokenDigest is the digest of a secret.
type tokenDigest [sha256.Size]byte

// keyRecord is the newest record of a key.
type keyRecord struct {
	revision uint64
	record   *tokenRecord // nil for a revoked token
}

// OpenTokens reads the tokens of the store and follows them until Close. UNAVAILABLE when they cannot be read.
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

// Close ends the following. It is idempotent.
func (t *Tokens) Close() {
	t.end()
	<-t.ended
}

// followAgain is how long a lost watch waits until it is begun anew.
const followAgain = 250 * time.Millisecond

// follow watches the bucket, anew after each loss of the connection. ready is told when all that was there is read, or why
// it cannot be.
func (t *Tokens) follow(ctx context.Context, ready chan<- error) {
	defer close(t.ended)
	tick := time.NewTicker(followAgain)
	defer tick.Stop()
	told := false
	tell := func(err error) {
		if !told {
			told = true
			ready <- err
		}
	}
	for ctx.Err() == nil {
		err := t.watch(ctx, func() { tell(nil) })
		if err != nil && ctx.Err() == nil {
			tell(err)
			t.log.LogAttrs(ctx, slog.LevelDebug, "tokens_not_followed", slog.Any("error", err))
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
}

// watch reads the bucket and then its changes until ctx ends or the connection is lost; ready is called when all
// that was there is read. The server that tells of a replicated bucket may lag behind its leader: until it has told what
// the leader has, tokens are missing, and revoked ones are not.
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
		} // else the library waits for a reader for ever
	}()
	for told, learned := false, uint64(0); ; {
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
				told = true
			default:
				t.applyEntry(ctx, e)
				learned = max(learned, e.Revision())
			}
			if told && learned >= newest {
				ready()
			}
		}
	}
}

// leaderRevision is the newest revision that the leader of a replicated bucket has; 0 where there is one server.
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

// applyEntry takes a change of the bucket. A record that cannot be read is none.
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

// apply makes a record the one of its key, unless a newer one is known. The token that was there before is good
// no longer.
func (t *Tokens) apply(key string, revision uint64, r *tokenRecord) {
	was, told := t.replace(key, revision, r)
	if was != nil && told != nil {
		told(was.Token, r.renews(was))
	}
}

// renews reports whether a token is the next one of an agent.
func (r *tokenRecord) renews(was *tokenRecord) bool {
	return r != nil && was != nil && r.Agent != nil && was.Agent != nil && r.Agent.ID == was.Agent.ID
}

// replace returns the record whose place another one has taken, nil when there was none, and who is told.
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

// invalidate ends a token. The lock is held.
func (t *Tokens) invalidate(r *tokenRecord) {
	if sum, _ := r.digest(); t.sums[sum] == r {
		delete(t.sums, sum)
	}
	if r.Agent != nil && t.agents[r.Agent.ID] == r {
		delete(t.agents, r.Agent.ID)
	}
	close(r.done)
}

func (r *tokenRecord) digest() (sum tokenDigest, ok bool) {
	n, err := hex.Decode(sum[:], []byte(r.SHA256)[:min(len(r.SHA256), 2*len(sum))])
	return sum, err == nil && n == len(sum)
}

// HasDigest reports whether a token is known by its id, and the digest of its secret is the one in hex.
func (t *Tokens) HasDigest(id, digest string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	r := t.sums[digestIn(digest)]
	return r != nil && r.ID == id
}

// Operator returns who acts with a token of the role operator, such as user:ada, by the digest of its secret in hex. Errors:
// UNAUTHORIZED, TOKEN_EXPIRED, and FORBIDDEN for a token with bounds.
func (t *Tokens) Operator(digest string) (identity string, err error) {
	t.mu.RLock()
	r := t.sums[digestIn(digest)]
	t.mu.RUnlock()
	if r == nil {
		return "", unknownToken()
	}
	if err := r.checkExpiry(t.now()); err != nil {
		return "", err
	}
	return "user:" + r.Name, r.checkOperator()
}

// reserve keeps others from making a token of the same digest meanwhile: VALIDATION_ERROR when there is one, or will be.
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

// digestIn reads a digest in hex; what is none is that of no secret.
func digestIn(text string) tokenDigest {
	sum, _ := (&tokenRecord{SHA256: text}).digest()
	return sum
}

// count returns the number of tokens.
func (t *Tokens) count() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return len(t.sums)
}

// VerifyToken returns whose secret it is. It looks for the digest of what was sent, which tells by its time at most
// something about digests, and compares that in constant time (S4-003). Errors: UNAUTHORIZED for whatever is not
// exactly the secret of a token, TOKEN_EXPIRED.
func (t *Tokens) VerifyToken(secret string) (Token, error) {
	r, err := t.verify(secret)
	if err != nil {
		return Token{}, err
	}
	return r.Token, nil
}

// While returns a context that ends with a token: when it expires, is revoked or is replaced. Long answers are sent
// under it. For what is no token it is ctx. The caller has to call cancel.
func (t *Tokens) While(ctx context.Context, secret string) (while context.Context, cancel context.CancelFunc) {
	r, err := t.verify(secret)
	if err != nil {
		return ctx, func() {}
	}
	return r.while(ctx)
}

// while returns a context that ends with the token.
func (r *tokenRecord) while(ctx context.Context) (while context.Context, cancel context.CancelFunc) {
	if r.ExpiresAt.IsZero() {
		while, cancel = context.WithCancel(ctx)
	} else {
		while, cancel = context.WithDeadline(ctx, r.ExpiresAt)
	}
	go func() {
		select {
		case <-r.done:
			cancel()
		case <-while.Done():
		}
	}()
	return while, cancel
}

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

// checkExpiry returns TOKEN_EXPIRED for a token that was.
func (r *tokenRecord) checkExpiry(now time.Time) error {
	if r.Expired(now) {
		return fault.New(fault.TokenExpired, "the token %s has expired", r.ID).WithHint("make a new one: orch token create")
	}
	return nil
}

func unknownToken() error {
	return fault.New(fault.Unauthorized, "this is no token of the node").WithHint("make one: orch token create")
}

// tokenAttr is what the log of the node says of a token, and who did something to it.
func tokenAttr(t Token, actor string) slog.Attr {
	return slog.Group("token", slog.String("id", t.ID), slog.String("name", t.Name), slog.String("role", t.Role), slog.String("actor", actor))
}
