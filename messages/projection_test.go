package messages_test

import (
	"cmp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
	"github.com/orch-dev/orch/messages/messagestest"
)

// naiveProjection is a simple implementation of Projection that scans everything each time.
type naiveProjection struct {
	messages []plainMessage
	since    map[string]uint64 // of a member of the group
}

type plainMessage struct {
	messages.Message

	taken map[string]bool
}

func (p *naiveProjection) apply(position uint64, r messages.Record) {
	find := func(id string) int {
		return slices.IndexFunc(p.messages, func(m plainMessage) bool { return m.ID == id })
	}
	switch r.Kind {
	case messages.Sent:
		m := *r.Message
		m.Position = position
		p.messages = append(p.messages, plainMessage{m, map[string]bool{}})
		slices.SortFunc(p.messages, func(a, b plainMessage) int { return cmp.Compare(a.Position, b.Position) })
	case messages.Done:
		if at := find(r.Message.ID); at >= 0 {
			p.messages = slices.Delete(p.messages, at, at+1)
		}
	case messages.RecipientDone:
		if at := find(r.ID); at >= 0 {
			p.messages[at].taken[r.Who] = true
		}
	case messages.Joined:
		if p.since[r.Who] == 0 {
			p.since[r.Who] = position
		}
	case messages.Left:
		delete(p.since, r.Who)
	}
}

func (p *naiveProjection) expire(now time.Time) {
	p.messages = slices.DeleteFunc(p.messages, func(m plainMessage) bool { return !m.Alive(now) })
}

func (p *naiveProjection) waiting(who string, now time.Time) (ids []string) {
	for _, m := range p.messages {
		in := func(string) bool { return p.since[who] > 0 && p.since[who] < m.Position }
		if m.Alive(now) && !m.taken[who] && m.IsFor(who, in) {
			ids = append(ids, m.ID)
		}
	}
	return ids
}

// boxed returns the messages of an address; that of a recipient lacks acknowledged ones.
func (p *naiveProjection) boxed(address string) (all []plainMessage) {
	for _, m := range p.messages {
		if slices.Contains(m.To, address) && !m.taken[address] {
			all = append(all, m)
		}
	}
	return all
}

func (p *naiveProjection) weakest(address string, priority int) (id string) {
	for _, m := range p.boxed(address) {
		if m.Priority < priority {
			id, priority = m.ID, m.Priority
		}
	}
	return id
}

// A projection agrees with the naive one for all records, in any order of messages.
func TestProjectionAgreesWithNaiveOne(t *testing.T) {
	t.Parallel()
	people, group := []string{"agent:a", "agent:b", "user:c"}, "group:g"
	addresses := append([]string{group, messages.All}, people...)
	start := time.Unix(1_000_000, 0)
	rapid.Check(t, func(t *rapid.T) {
		projection, naive, now := messages.NewProjection(), &naiveProjection{since: map[string]uint64{}}, start
		apply := func(position uint64, r messages.Record) {
			projection.Apply(position, r)
			naive.apply(position, r)
		}
		position, sent := uint64(0), 0
		next := func() uint64 { position += 2; return position }
		someone, id := rapid.SampledFrom(people), func() string { return "M" + strconv.Itoa(rapid.IntRange(0, sent).Draw(t, "id")) }
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for _, who := range people {
					require.Equal(t, naive.waiting(who, now), projection.Waiting(who, now), who)
				}
				for _, address := range addresses {
					require.Len(t, naive.boxed(address), projection.Queued(address), address)
					for p := range messages.MaxPriority + 1 {
						require.Equal(t, naive.weakest(address, p), projection.Weakest(address, p), "%s %d", address, p)
					}
				}
			},
			"send": func(t *rapid.T) {
				at := next()
				if rapid.Bool().Draw(t, "late") && at > 6 {
					at -= 5 // an odd one, which nobody has
					if slices.ContainsFunc(naive.messages, func(m plainMessage) bool { return m.Position == at }) {
						return
					}
				}
				sent++
				apply(at, messages.Record{Kind: messages.Sent, Message: &messages.Message{
					ID: "M" + strconv.Itoa(sent), Sender: someone.Draw(t, "sender"), Priority: rapid.IntRange(0, messages.MaxPriority).Draw(t, "priority"),
					To:        rapid.SliceOfNDistinct(rapid.SampledFrom(addresses), 1, 3, rapid.ID[string]).Draw(t, "to"),
					ExpiresAt: now.Add(time.Duration(rapid.IntRange(1, 10).Draw(t, "life")) * time.Second),
				}})
			},
			"take": func(t *rapid.T) {
				apply(next(), messages.Record{Kind: messages.RecipientDone, ID: id(), Who: someone.Draw(t, "who")})
			},
			"done": func(*rapid.T) {
				apply(next(), messages.Record{Kind: messages.Done, Message: &messages.Message{ID: id()}})
			},
			"join": func(t *rapid.T) {
				apply(next(), messages.Record{Kind: messages.Joined, Group: group, Who: someone.Draw(t, "who")})
			},
			"leave": func(t *rapid.T) {
				apply(next(), messages.Record{Kind: messages.Left, Group: group, Who: someone.Draw(t, "who")})
			},
			"expire": func(*rapid.T) { now = now.Add(time.Second); projection.Expire(now); naive.expire(now) },
		})
	})
}

// send sends a message and returns its id.
func send(t *testing.T, s *messages.Service, to ...string) string {
	t.Helper()
	r, err := s.Send(t.Context(), "user:sender", messages.Draft{To: to, Payload: []byte(`1`)})
	require.NoError(t, err)
	return r.ID
}

func ack(t *testing.T, s *messages.Service, who, id string) {
	t.Helper()
	a, err := s.Ack(t.Context(), who, []string{id})
	require.NoError(t, err)
	require.Equal(t, []string{id}, a.Acknowledged, who)
}

func join(t *testing.T, s *messages.Service, change messages.GroupChange, people ...string) {
	t.Helper()
	for _, who := range people {
		_, err := s.Group(t.Context(), who, change)
		require.NoError(t, err)
	}
}

// A message to a group is done when all members that receive it have acknowledged it, and its stored acknowledgements
// are dropped.
func TestMessageToAGroupEnds(t *testing.T) {
	t.Parallel()
	store := &messagestest.Store{}
	s := store.Open(messages.Config{})
	join(t, s, messages.GroupChange{Join: "g"}, "agent:a", "agent:b", "agent:c", "user:sender")
	id := send(t, s, "group:g", "agent:d")
	join(t, s, messages.GroupChange{Join: "g"}, "agent:late")
	ack(t, s, "agent:a", id)
	ack(t, s, "agent:d", id)
	assert.Equal(t, 2, s.Takes())
	join(t, s, messages.GroupChange{Leave: "g"}, "agent:a", "agent:b")
	assert.Equal(t, 1, s.Takes(), "who left does not see it again")
	join(t, s, messages.GroupChange{Join: "g"}, "agent:a")
	p, err := s.Inbox(t.Context(), "agent:a", messages.Query{})
	require.NoError(t, err)
	assert.Empty(t, p.Messages)
	for _, open := range []*messages.Service{s, store.Open(messages.Config{})} {
		assert.Equal(t, 1, open.Live())
	}
	ack(t, s, "agent:c", id)
	for _, open := range []*messages.Service{s, store.Open(messages.Config{})} {
		assert.Zero(t, open.Live(), "the last one has it")
		assert.Zero(t, open.Takes())
	}
}

// The stored acknowledgements of messages to all are bounded: for one message by ending it, for all of them by refusing
// further ones without losing messages.
func TestTakersAreBounded(t *testing.T) {
	t.Parallel()
	store := &messagestest.Store{}
	s := store.Open(messages.Config{Ackers: 3, StoredAcks: 4})
	first, second, third := send(t, s, messages.All), send(t, s, messages.All), send(t, s, messages.All)
	for _, who := range []string{"agent:a", "agent:b"} {
		ack(t, s, who, first)
		ack(t, s, who, second)
	}
	require.Equal(t, 4, s.Takes())
	_, err := s.Ack(t.Context(), "agent:a", []string{third})
	assert.Equal(t, fault.QuotaExceeded, fault.CodeOf(err))
	p, err := s.Inbox(t.Context(), "agent:a", messages.Query{})
	require.NoError(t, err)
	assert.Len(t, p.Messages, 1, "it is still there")
	ack(t, s, "agent:c", first) // the third one
	assert.Equal(t, 2, s.Live())
	assert.Equal(t, 2, s.Takes())
	ack(t, s, "agent:a", third)
}
