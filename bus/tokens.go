package bus

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// The roles of tokens.
const (
	RoleOperator  = "operator"
	RoleSubmitter = "submitter"
	RoleAgent     = "agent"
	RoleViewer    = "viewer"
)

// TokenRoles returns the roles that a token may have, the one with the most rights first.
func TokenRoles() []string { return []string{RoleOperator, RoleSubmitter, RoleAgent, RoleViewer} }

// Token describes a bearer token, without its secret (S4-002).
type Token struct {
	// ID is "TOK_" and a ULID.
	ID string `json:"id"`
	// Name is the name of the user of the token. It is unique among the unexpired tokens that people have created.
	Name string `json:"name"`
	Role string `json:"role"`
	// CreatedBy is the actor who created the token.
	CreatedBy string    `json:"created_by"`
	CreatedAt time.Time `json:"created_at"`
	// ExpiresAt is zero for a token that never expires.
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	// Tools are names or globs of the permitted tools; empty permits all tools. ReadOnly permits only tools without
	// effects.
	Tools    []string `json:"tools,omitempty"`
	ReadOnly bool     `json:"read_only,omitempty"`
	// Local is "HOST:DIRECTORY" of a node, in the token that the node has created for the user who started it.
	Local string `json:"local,omitempty"`
	// Agent is the profile of the registered agent that uses the token; nil for any other token. Sponsor is an identity,
	// such as user:ada: its tokens limit the rights of the agent's token. It may be empty.
	Agent   *agents.Profile `json:"agent,omitempty"`
	Sponsor string          `json:"sponsor,omitempty"`
	// Share is the identity whose share of the worker slots the agent uses (ADR 0021): the registrar of the agent or, if
	// the registrar itself uses the share of another identity, that identity. It is empty for an agent that an operator
	// has registered: such an agent has a separate share.
	Share string `json:"share,omitempty"`
}

// Expired reports whether a token has expired at a time.
func (t Token) Expired(now time.Time) bool { return !t.ExpiresAt.IsZero() && !now.Before(t.ExpiresAt) }

// NewToken is a request for a token. The caller creates the secret (see IssueToken) and sends only its digest.
type NewToken struct {
	Name  string `json:"name"`
	Role  string `json:"role"`
	Actor string `json:"actor"`
	// SHA256 is the digest of the secret, in hex.
	SHA256 string `json:"sha256"`
	// Life is how long the token is valid; 0 means forever. If Until is not zero, the token expires then at the latest.
	Life     time.Duration `json:"life,omitempty"`
	Until    time.Time     `json:"until,omitzero"`
	Tools    []string      `json:"tools,omitempty"`
	ReadOnly bool          `json:"read_only,omitempty"`
	// Local is set for the token of a node, which replaces the previous one; see Token.Local.
	Local string `json:"local,omitempty"`
	// Agent is set for the token of a registered agent, with an optional Sponsor and Share; see Token.
	Agent   *agents.Profile `json:"agent,omitempty"`
	Sponsor string          `json:"sponsor,omitempty"`
	Share   string          `json:"share,omitempty"`
	// Replaces is the id of a token with the same name, which becomes invalid when the new token becomes valid.
	Replaces string `json:"replaces,omitempty"`
}

// RevokeToken is a request to revoke a token.
type RevokeToken struct {
	// Token is the id of a token, or the name of a token that a person has created.
	Token string `json:"token"`
	Actor string `json:"actor"`
}

// ActorFields implements rpc.ActorRequest.
func (n *NewToken) ActorFields() []*string { return []*string{&n.Actor} }

// ActorFields implements rpc.ActorRequest.
func (r *RevokeToken) ActorFields() []*string { return []*string{&r.Actor} }

var _ TokenStore = (*Tokens)(nil)

// TokenStore creates, lists and revokes tokens, in this process or on a node.
type TokenStore interface {
	// CreateToken creates a token. Errors: VALIDATION_ERROR (also if the digest is that of another token), INVALID_FORMAT,
	// CONFLICT if the name is in use.
	CreateToken(ctx context.Context, in NewToken) (Token, error)
	// ListTokens returns all tokens, including expired ones, the oldest first.
	ListTokens(ctx context.Context) ([]Token, error)
	// RevokeToken revokes a token and returns its description. NOT_FOUND if the token does not exist.
	RevokeToken(ctx context.Context, in RevokeToken) (Token, error)
}

// IssueToken creates a token with a new secret. It returns the token and the secret; the store gets only the digest.
func IssueToken(ctx context.Context, store TokenStore, in NewToken) (Token, string, error) {
	secret := agents.NewSecret()
	in.SHA256 = agents.DigestOf(secret)
	token, err := store.CreateToken(ctx, in)
	if err != nil {
		return Token{}, "", err
	}
	return token, secret, nil
}

const (
	// maxTools is the maximum number of tools of a token, maxNames that of the token of an agent, which may list all tools
	// that the registering task sees. maxGlob and longestName limit the bytes of a glob and of the name of a user.
	maxTools    = 64
	maxNames    = 1000
	maxGlob     = 128
	longestName = 256
	// maxTokens limits the number of tokens, including expired ones.
	maxTokens = 10000
)

// tokenName is the format of the names that people choose.
var tokenName = regexp.MustCompile(`^[a-z0-9._-]{1,64}$`)

func (n *NewToken) validate() error {
	if n.Agent != nil {
		if err := n.Agent.Check(n.Name); err != nil {
			return err
		}
	} else if n.Local == "" && !tokenName.MatchString(n.Name) {
		return fault.New(fault.InvalidFormat, "%q is not a valid name of a token", n.Name).WithField("name").
			WithHint("use 1 to 64 of a to z, 0 to 9, '.', '_' and '-'")
	}
	if n.Name == "" || len(n.Name) > longestName {
		return fault.New(fault.InvalidFormat, "the name has %d bytes", len(n.Name)).WithField("name")
	}
	if !slices.Contains(TokenRoles(), n.Role) {
		return fault.New(fault.ValidationError, "%q is not a valid role", n.Role).WithField("role").
			WithHint("use one of %s", strings.Join(TokenRoles(), ", "))
	}
	if sum, err := hex.DecodeString(n.SHA256); err != nil || len(sum) != sha256.Size {
		return fault.New(fault.InvalidFormat, "the digest of the secret is invalid").WithField("sha256")
	}
	if n.Life < 0 {
		return fault.New(fault.ValidationError, "a token cannot expire before it is made").WithField("expires")
	}
	if n.Actor == "" {
		return fault.New(fault.RequiredField, "the actor who creates the token is missing").WithField("actor")
	}
	return n.validateTools()
}

func (n *NewToken) validateTools() error {
	limit := maxTools
	if n.Agent != nil {
		limit = maxNames
	}
	if len(n.Tools) > limit {
		return fault.New(fault.ValidationError, "there are %d patterns of tools, the limit is %d", len(n.Tools), limit).WithField("tools")
	}
	for _, glob := range n.Tools {
		if _, err := path.Match(glob, ""); err != nil || glob == "" || len(glob) > maxGlob {
			return fault.New(fault.InvalidFormat, "%q is not a valid name or glob of tools", glob).WithField("tools").
				WithHint("write it as FILE_READ or FILE_*")
		}
	}
	return nil
}

// tokenRecord is a value of the bucket ORCH_TOKENS.
type tokenRecord struct {
	Token

	SHA256 string `json:"sha256"`
	// done is closed when the token is revoked or replaced.
	done chan struct{}
	// renewed is when the token replaced an earlier token of the same agent, as seen by this node.
	renewed time.Time
}

// key returns the key of the token's record in the bucket: a key for the node of a local token, otherwise a key for the
// name.
func (n *NewToken) key() string {
	if n.Local != "" {
		return "local." + hashed(n.Local)
	}
	return "name." + hex.EncodeToString([]byte(n.Name))
}

// CreateToken implements TokenStore. When it returns, the token is durable, and valid on this node.
func (t *Tokens) CreateToken(ctx context.Context, in NewToken) (Token, error) {
	if err := in.validate(); err != nil {
		return Token{}, err
	}
	if in.Local == "" && t.count() >= maxTokens {
		return Token{}, fault.New(fault.QuotaExceeded, "there are %d tokens", maxTokens).WithHint("revoke some: orch token list")
	}
	if err := t.store.space.checkRoom(1<<10, time.Now()); err != nil {
		return Token{}, err
	}
	free, err := t.reserve(in.SHA256)
	if err != nil {
		return Token{}, err
	}
	defer free()
	after, err := t.previousRevision(ctx, in)
	if err != nil {
		return Token{}, err
	}
	now := events.Time(t.now())
	token := Token{
		ID: events.NewTokenID(now), Name: in.Name, Role: in.Role, CreatedBy: in.Actor, CreatedAt: now,
		Tools: in.Tools, ReadOnly: in.ReadOnly, Local: in.Local, Agent: in.Agent, Sponsor: in.Sponsor, Share: in.Share, ExpiresAt: in.expiry(now),
	}
	if err := t.writeRecord(ctx, in.key(), after, &tokenRecord{Token: token, SHA256: in.SHA256}); err != nil {
		return Token{}, err
	}
	t.log.LogAttrs(ctx, slog.LevelInfo, "token_created", tokenAttr(token, in.Actor))
	return token, nil
}

// expiry returns when a token created now expires; zero means never.
func (n *NewToken) expiry(now time.Time) time.Time {
	end := n.Until
	if n.Life > 0 && (end.IsZero() || now.Add(n.Life).Before(end)) {
		end = now.Add(n.Life)
	}
	return end
}

// previousRevision returns the newest revision of the key, which the new record must follow; 0 for a new key. Errors:
// CONFLICT if another valid token has the name, UNAUTHORIZED if in.Replaces is not the newest token of the key.
func (t *Tokens) previousRevision(ctx context.Context, in NewToken) (uint64, error) {
	last, err := t.store.conn.last(ctx, tokensStream, kvSubject(tokensBucket, in.key()))
	if err != nil {
		return 0, err
	}
	var was tokenRecord
	if in.Replaces != "" && (last == nil || len(last.Data) == 0 || json.Unmarshal(last.Data, &was) != nil || was.ID != in.Replaces) {
		return 0, fault.New(fault.Unauthorized, "the credential was revoked, or has been replaced")
	}
	if last == nil {
		return 0, nil
	}
	if len(last.Data) > 0 && json.Unmarshal(last.Data, &was) == nil && in.Local == "" && !was.Expired(t.now()) && was.ID != in.Replaces {
		return 0, fault.New(fault.Conflict, "there is a token %s of the name %s", was.ID, in.Name).WithField("name").
			WithHint("choose another name, or revoke that one: orch token revoke %s", in.Name)
	}
	return last.Sequence, nil
}

// last returns the newest message of a subject, nil if there is none.
func (c *Conn) last(ctx context.Context, stream, subject string) (*jetstream.RawStreamMsg, error) {
	s, err := c.js.Stream(ctx, stream)
	if err != nil {
		return nil, sideFault(err, "the tokens cannot be read")
	}
	m, err := s.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, sideFault(err, "the tokens cannot be read")
	}
	return m, nil
}

// The header, and its value, by which a bucket marks a deleted key.
const (
	kvOperation = "KV-Operation"
	kvDeleted   = "DEL"
)

// writeRecord writes a record, or deletes the key if r is nil. CONFLICT if the newest revision of the key is not after. When
// it returns nil, the change is durable, and in effect on this node.
func (t *Tokens) writeRecord(ctx context.Context, key string, after uint64, r *tokenRecord) error {
	m := &nats.Msg{Subject: kvSubject(tokensBucket, key), Header: nats.Header{headHeader: {"token"}}}
	if r == nil {
		m.Header.Set(kvOperation, kvDeleted)
	} else {
		var err error
		if m.Data, err = json.Marshal(r); err != nil {
			return fault.Wrap(fault.Internal, err, "a token cannot be encoded")
		}
	}
	ack, err := t.store.conn.js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(after))
	var apiErr *jetstream.APIError
	if errors.As(err, &apiErr) && apiErr.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence {
		return fault.Wrap(fault.Conflict, err, "another writer has just changed this token").WithHint("look at it with: orch token list")
	}
	if err != nil {
		return sideFault(err, "the token cannot be stored")
	}
	t.store.touched.Store(true)
	t.apply(key, ack.Sequence, r)
	return t.store.barrier().wait(tokensStream)
}

// ListTokens implements TokenStore.
func (t *Tokens) ListTokens(context.Context) ([]Token, error) {
	list := []Token{}
	t.mu.RLock()
	for _, h := range t.keys {
		if h.record != nil {
			list = append(list, h.record.Token)
		}
	}
	t.mu.RUnlock()
	slices.SortFunc(list, func(a, b Token) int { return strings.Compare(a.ID, b.ID) })
	return list, nil
}

// RevokeToken implements TokenStore. When it returns, this node refuses the token; other nodes refuse it as soon as they
// receive the change.
func (t *Tokens) RevokeToken(ctx context.Context, in RevokeToken) (Token, error) {
	key, h := t.find(in.Token)
	if h.record == nil {
		return Token{}, fault.New(fault.NotFound, "there is no token with that id or name").WithField("token").
			WithHint("see: orch token list")
	}
	if err := t.writeRecord(ctx, key, h.revision, nil); err != nil {
		return Token{}, err
	}
	t.log.LogAttrs(ctx, slog.LevelInfo, "token_revoked", tokenAttr(h.record.Token, in.Actor))
	return h.record.Token, nil
}

// Revoked reports whether the last token that a person created with a name was revoked.
func (t *Tokens) Revoked(name string) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	h, known := t.keys[(&NewToken{Name: name}).key()]
	return known && h.record == nil
}

// find returns the key and the record of the token with an id. If no token has that id, it returns the token that a person
// created with that name.
func (t *Tokens) find(text string) (key string, found keyRecord) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for k, h := range t.keys {
		switch {
		case h.record == nil:
		case h.record.ID == text:
			return k, h
		case h.record.Name == text && h.record.Local == "":
			key, found = k, h
		}
	}
	return key, found
}

// checkOperator returns FORBIDDEN for a token with another role or with restrictions on tools. Such tokens can only be used
// over MCP and HTTP, which enforce the restrictions.
func (t Token) checkOperator() error {
	if t.Role != RoleOperator || len(t.Tools) > 0 || t.ReadOnly {
		return fault.New(fault.Forbidden, "the command line takes tokens of the role operator that show all tools").
			WithHint("use this one over MCP, or make another one: orch token create NAME --role operator")
	}
	return nil
}
