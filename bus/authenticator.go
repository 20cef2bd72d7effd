package bus

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/orch-dev/orch/agents"
)

// RenewedWithin is how long a connection of an agent stays open after the agent has renewed its credential, so that the
// answer with the new credential arrives. In that time the old credential cannot be renewed again.
const RenewedWithin = 10 * time.Second

const (
	// maxAgentConns is the maximum number of connections with tokens to the embedded server, connsPerAgent that of one
	// agent or person.
	maxAgentConns = 4096
	connsPerAgent = 8
)

// authenticator decides who may connect to the embedded server, and with which permissions: the operator, workers, and
// agents and people with tokens. Only the appender of the node may write to the log. Every incarnation of the server has its own authenticator.
type authenticator struct {
	auth credentials
	// appends is the password of appenderUser.
	appends string
	log     *slog.Logger
	// tokens points to the list of tokens of agents and people, which is nil until the node has read it.
	tokens *atomic.Pointer[Tokens]
	// refused, which may be nil, is called with the address of a client that was refused.
	refused func(source string)
	// server is set before anybody can connect.
	server *server.Server

	mu sync.Mutex
	// conns are the connections with tokens, by number. Closed connections are removed when the next connection opens.
	conns map[uint64]tokenConn
}

// tokenConn is a connection with a token.
type tokenConn struct{ user, token string }

var _ server.Authentication = (*authenticator)(nil)

// Check implements server.Authentication.
func (a *authenticator) Check(c server.ClientAuthentication) bool {
	if a.admit(c) {
		return true
	}
	if addr := c.RemoteAddress(); a.refused != nil && c.Kind() == server.CLIENT {
		source := "process"
		if addr != nil {
			source = addr.String()
		}
		if host, _, err := net.SplitHostPort(source); err == nil {
			source = host
		}
		a.refused(source)
	}
	return false
}

// admit decides whether a client may connect, and registers its permissions.
func (a *authenticator) admit(c server.ClientAuthentication) bool {
	opts := c.GetOpts()
	switch {
	case c.Kind() != server.CLIENT:
		return false
	case opts.Username == OperatorUser && equalSecrets(opts.Password, a.auth.Operator):
		c.RegisterUser(&server.User{Username: OperatorUser, Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{IdentitySubjects + ".>", liveAll}},
		}})
		return true
	case opts.Username == appenderUser && equalSecrets(opts.Password, a.appends):
		c.RegisterUser(&server.User{Username: appenderUser})
		return true
	case opts.Username == WorkerUser && equalSecrets(opts.Password, a.auth.Worker):
		c.RegisterUser(&server.User{Username: WorkerUser, Permissions: permissions(
			[]string{WorkPrefix + ".>", NoticePrefix + ".*"}, workerInbox+".>",
		)})
		return true
	default:
		return a.admitToken(c, opts)
	}
}

// equalSecrets compares secrets in constant time.
func equalSecrets(got, want string) bool {
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want))
	return want != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

func permissions(publish []string, subscribe ...string) *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: publish},
		Subscribe: &server.SubjectPermission{Allow: subscribe},
	}
}

// admitToken reports whether a client has a valid token of an agent or of a person, and registers its permissions: to
// publish with the identity of the token and to receive the replies. The connection is closed when the token expires.
func (a *authenticator) admitToken(c server.ClientAuthentication, opts *server.ClientOpts) bool {
	tokens, secret := a.tokens.Load(), cmp.Or(opts.Token, opts.Password)
	if tokens == nil {
		return false
	}
	t, err := tokens.VerifyToken(secret)
	if err != nil {
		return false
	}
	user := personUser(t, secret)
	if t.Agent != nil {
		user = agentUser(t)
	}
	if user == nil || opts.Username != "" && opts.Username != t.Name && opts.Username != user.Username {
		return false
	}
	if !a.track(c.GetID(), tokenConn{user.Username, t.ID}) {
		a.log.Warn("agent_not_connected", slog.String("agent", t.Name), slog.String("why", "too many connections"))
		return false
	}
	if _, err := tokens.VerifyToken(secret); err != nil { // the token became invalid before the connection was tracked
		return false
	}
	c.RegisterUser(user)
	return true
}

// agentUser returns the user and permissions of a registered agent.
func agentUser(t Token) *server.User {
	return &server.User{
		Username: t.Agent.ID, ConnectionDeadline: t.ExpiresAt,
		Permissions: permissions([]string{AgentSubjects + "." + t.Agent.ID + ".>"}, AgentInbox(t.Agent.ID)+".>"),
	}
}

// personUser returns the user and permissions of the owner of a token, or nil unless it is an unrestricted operator's token.
func personUser(t Token, secret string) *server.User {
	if t.checkOperator() != nil {
		return nil
	}
	digest := agents.DigestOf(secret)
	return &server.User{
		Username: t.ID, ConnectionDeadline: t.ExpiresAt,
		Permissions: permissions([]string{IdentitySubjects + "." + digest + ".*"}, IdentityInbox(digest)+".>", nodesNews),
	}
}

// track registers a connection; it returns false if the user, or the server, has too many connections.
func (a *authenticator) track(id uint64, v tokenConn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.conns, func(id uint64, _ tokenConn) bool { return a.server.GetClient(id) == nil })
	count := 0
	for _, other := range a.conns {
		if other.user == v.user {
			count++
		}
	}
	if count >= connsPerAgent || len(a.conns) >= maxAgentConns {
		return false
	}
	if a.conns == nil {
		a.conns = map[uint64]tokenConn{}
	}
	a.conns[id] = v
	return true
}

// disconnect closes the connections that use a token.
func (a *authenticator) disconnect(token string) {
	var ids []uint64
	a.mu.Lock()
	for id, v := range a.conns {
		if v.token == token {
			ids = append(ids, id)
			delete(a.conns, id)
		}
	}
	a.mu.Unlock()
	for _, id := range ids {
		_ = a.server.DisconnectClientByID(id) // the connection may already be closed
	}
}

// AdmitAgents lets agents and people connect with their tokens from now on. When a token becomes invalid, its connections
// are closed: at once or, if the agent has renewed the token, after RenewedWithin.
func (s *Server) AdmitAgents(t *Tokens) {
	s.agents.Store(t)
	t.notifyInvalid(func(token Token, renewed bool) {
		if renewed {
			time.AfterFunc(RenewedWithin, func() { s.disconnectAgent(token.ID) })
			return
		}
		s.disconnectAgent(token.ID)
	})
}

func (s *Server) disconnectAgent(token string) {
	s.mu.RLock()
	a := s.authenticator
	s.mu.RUnlock()
	if a != nil {
		a.disconnect(token)
	}
}
