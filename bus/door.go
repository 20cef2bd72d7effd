package bus

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const (
	// maxAgentConns bounds the connections of all agents to the embedded server, connsPerAgent those of one.
	maxAgentConns = 4096
	connsPerAgent = 8
	// renewedWithin is how long a connection outlives its credential when the agent has renewed that: the answer with
	// the new one has to arrive.
	renewedWithin = 10 * time.Second
)

// door says who may connect to the embedded server, and what for: the operator, workers, and registered agents with
// their own credentials. Every start of the server in this process has a door of its own.
type door struct {
	auth credentials
	log  *slog.Logger
	// tokens are the credentials of agents; nil until the node has read them.
	tokens *atomic.Pointer[Tokens]
	// server is set before anybody can connect.
	server *server.Server

	mu sync.Mutex
	// inside are the connections of agents, by number. Those that have ended are dropped when the next one begins.
	inside map[uint64]visitor
}

// visitor is a connection of an agent.
type visitor struct{ agent, token string }

var _ server.Authentication = (*door)(nil)

// Check implements server.Authentication.
func (d *door) Check(c server.ClientAuthentication) bool {
	said := c.GetOpts()
	switch {
	case c.Kind() != server.CLIENT:
		return false
	case said.Username == OperatorUser && same(said.Password, d.auth.Operator):
		c.RegisterUser(&server.User{Username: OperatorUser})
		return true
	case said.Username == WorkerUser && same(said.Password, d.auth.Worker):
		c.RegisterUser(&server.User{Username: WorkerUser, Permissions: permits(
			[]string{WorkPrefix + ".>", NoticePrefix + ".*"}, workerInbox+".>",
		)})
		return true
	default:
		return d.admitAgent(c, said)
	}
}

// same compares secrets in a time that does not depend on them.
func same(said, known string) bool {
	a, b := sha256.Sum256([]byte(said)), sha256.Sum256([]byte(known))
	return known != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

func permits(publish []string, subscribe string) *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: publish},
		Subscribe: &server.SubjectPermission{Allow: []string{subscribe}},
	}
}

// admitAgent lets a registered agent in, for as long as its credential is good: to speak as itself, and to hear what it is
// answered.
func (d *door) admitAgent(c server.ClientAuthentication, said *server.ClientOpts) bool {
	tokens, secret := d.tokens.Load(), cmp.Or(said.Token, said.Password)
	if tokens == nil {
		return false
	}
	t, err := tokens.VerifyToken(secret)
	if err != nil || t.Agent == nil || said.Username != "" && said.Username != t.Name && said.Username != t.Agent.ID {
		return false
	}
	if !d.note(c.GetID(), visitor{t.Agent.ID, t.ID}) {
		d.log.Warn("agent_not_connected", slog.String("agent", t.Name), slog.String("why", "too many connections"))
		return false
	}
	if _, err := tokens.VerifyToken(secret); err != nil { // it ended before the connection was noted
		return false
	}
	c.RegisterUser(&server.User{
		Username: t.Agent.ID, ConnectionDeadline: t.ExpiresAt,
		Permissions: permits([]string{AgentSubjects + "." + t.Agent.ID + ".>"}, AgentInbox(t.Agent.ID)+".>"),
	})
	return true
}

// note counts a connection in; false when there are too many.
func (d *door) note(id uint64, v visitor) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.DeleteFunc(d.inside, func(id uint64, _ visitor) bool { return d.server.GetClient(id) == nil })
	its := 0
	for _, other := range d.inside {
		if other.agent == v.agent {
			its++
		}
	}
	if its >= connsPerAgent || len(d.inside) >= maxAgentConns {
		return false
	}
	if d.inside == nil {
		d.inside = map[uint64]visitor{}
	}
	d.inside[id] = v
	return true
}

// expel closes the connections that were made with a credential.
func (d *door) expel(token string) {
	var out []uint64
	d.mu.Lock()
	for id, v := range d.inside {
		if v.token == token {
			out = append(out, id)
			delete(d.inside, id)
		}
	}
	d.mu.Unlock()
	for _, id := range out {
		_ = d.server.DisconnectClientByID(id) // it may have gone by itself
	}
}

// AdmitAgents lets registered agents connect with their credentials from now on. A connection ends with the credential
// that it was made with; a little later when the agent has renewed that.
func (s *Server) AdmitAgents(t *Tokens) {
	s.agents.Store(t)
	ended := func(token Token, renewed bool) {
		if token.Agent == nil {
			return
		}
		if renewed {
			time.AfterFunc(renewedWithin, func() { s.expel(token.ID) })
			return
		}
		s.expel(token.ID)
	}
	t.onEnd.Store(&ended)
}

func (s *Server) expel(token string) {
	s.mu.RLock()
	d := s.door
	s.mu.RUnlock()
	if d != nil {
		d.expel(token)
	}
}
