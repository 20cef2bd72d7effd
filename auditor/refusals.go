package auditor

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/orch-dev/orch/audit"
)

// The limits of the refusals that are told apart within a window. Those beyond them are counted together.
const (
	// MaxKinds is the maximum number of kinds.
	MaxKinds = 50
	// MaxKindsEach is the maximum number of kinds of one actor.
	MaxKindsEach = 10
	// overflow stands for actors and acts beyond the limits.
	overflow = "*"
)

// kind is what equal refusals have in common.
type kind struct {
	actor, face, source, act, target, code, field string
}

// counted are the refusals of a kind since the last entry about it.
type counted struct {
	entry *audit.Entry
	count int
	since time.Time
	until time.Time
}

// counter counts refusals.
type counter struct {
	mu    sync.Mutex
	kinds map[kind]*counted
	each  map[string]int
}

// Refused records that an act was refused. It never blocks: the first refusal of its kind is written soon, further ones are counted and
// the count is written when the window ends.
func (s *Stream) Refused(act audit.Act, why error) {
	e := s.result(s.clean(act), 0, why, nil)
	e.Outcome = audit.Refused
	c, now := &s.refused, s.cfg.Clock().UTC()
	c.mu.Lock()
	defer c.mu.Unlock()
	k, e := c.kindOf(e)
	if known := c.kinds[k]; known != nil {
		known.add(now)
		return
	}
	if c.kinds == nil {
		c.kinds, c.each = map[kind]*counted{}, map[string]int{}
	}
	c.kinds[k] = &counted{entry: e}
	c.each[k.actor]++
	first := *e
	if !s.queue(job{entry: &first}, true) {
		c.kinds[k].add(now)
	}
}

func (n *counted) add(now time.Time) {
	if n.count == 0 {
		n.since = now
	}
	n.count++
	n.until = now
}

// kindOf returns the kind of a refusal, and what is recorded of it. Beyond the limits, that is only who was refused, or only that
// somebody was.
func (c *counter) kindOf(e *audit.Entry) (kind, *audit.Entry) {
	k := kind{e.Actor, e.Face, e.Source, e.Name, e.Target, string(e.Error.Code), e.Error.Field}
	if c.kinds[k] == nil && c.each[k.actor] >= MaxKindsEach {
		k = kind{actor: e.Actor, act: overflow}
	}
	if c.kinds[k] == nil && len(c.kinds) >= MaxKinds {
		k = kind{actor: overflow, act: overflow}
	}
	if k.act != overflow {
		return k, e
	}
	return k, &audit.Entry{Act: audit.Act{Actor: k.actor, Face: e.Face, Name: overflow}, Outcome: audit.Refused, Error: &audit.Problem{Code: e.Error.Code, Message: "several reasons"}}
}

// drain returns the entries with the counts of a window. Kinds without further refusals are forgotten: their next refusal is the first.
func (c *counter) drain() []*audit.Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []*audit.Entry
	for k, n := range c.kinds {
		if n.count == 0 {
			delete(c.kinds, k)
			c.each[k.actor]--
			continue
		}
		e, since := *n.entry, n.since
		e.Count, e.Since = n.count, &since
		n.count = 0
		all = append(all, &e)
	}
	slices.SortFunc(all, func(a, b *audit.Entry) int {
		return cmp.Or(a.Since.Compare(*b.Since), cmp.Compare(a.Actor, b.Actor), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Target, b.Target))
	})
	return all
}

func (s *Stream) writeCounts() {
	for _, e := range s.refused.drain() {
		s.write(e)
	}
}
