package dispatch

import "slices"

// lanes holds the lanes with queued or leased calls.
type lanes struct {
	// families holds their families, by the lanes without a limit key.
	families map[Lane]*family
	// fresh holds the families with calls that must be offered to the pollers at the next Dispatch.
	fresh  []*family
	shares shares
	limits *limits
}

func newLanes(l *limits) lanes {
	return lanes{families: map[Lane]*family{}, shares: shares{}, limits: l}
}

// get returns the keyLane of a lane. It is made if it is missing. The caller adds a call or a lease to it.
func (ls *lanes) get(l Lane) *keyLane {
	f := ls.family(l.withoutKey())
	if l.Key == "" {
		return &f.single
	}
	w := f.byKey[l.Key]
	if w == nil {
		if f.byKey == nil {
			f.byKey = map[string]*keyLane{}
		}
		w = &keyLane{family: f, key: l.Key, limits: ls.limits.find(&l)}
		f.byKey[l.Key] = w
	}
	return w
}

// family returns the family of a lane without a limit key. It is made if it is missing.
func (ls *lanes) family(l Lane) *family {
	f := ls.families[l]
	if f == nil {
		f = &family{lane: l, share: ls.shares.join(&l)}
		f.single = keyLane{family: f, limits: ls.limits.find(&l)}
		ls.families[l] = f
	}
	return f
}

// dropUnused removes a lane without calls and leases, and its family if it was the last lane.
func (ls *lanes) dropUnused(w *keyLane) {
	if w.used() {
		return
	}
	ls.limits.forget(w)
	f := w.family
	if w.key != "" {
		delete(f.byKey, w.key)
	}
	if len(f.byKey) == 0 && !f.single.used() {
		delete(ls.families, f.lane)
		ls.shares.leave(f)
	}
}

// markFresh lets the calls of a family be offered to the pollers at the next Dispatch.
func (ls *lanes) markFresh(f *family) {
	if !f.fresh {
		f.fresh = true
		ls.fresh = append(ls.fresh, f)
	}
}

// unmarkFresh removes the families from fresh that selected accepts.
func (ls *lanes) unmarkFresh(selected func(*family) bool) {
	ls.fresh = slices.DeleteFunc(ls.fresh, func(f *family) bool {
		f.fresh = !selected(f)
		return !f.fresh
	})
}

// refresh marks the families with calls as fresh that selected accepts.
func (ls *lanes) refresh(selected func(*family) bool) {
	for _, f := range ls.families {
		if f.queued > 0 && selected(f) {
			ls.markFresh(f)
		}
	}
}

// release lets the calls of a lane that a limit held be taken.
func (ls *lanes) release(w *keyLane) {
	w.reopen()
	ls.markFresh(w.family)
}

// releaseDue releases the lanes whose time has come, and all if that is further away than any limit asks for: the clock was set back.
func (ls *lanes) releaseDue() {
	at, ok := ls.limits.timed.next()
	if !ok {
		return
	}
	now := ls.limits.now()
	if at.Sub(now) > ls.limits.longest {
		now = at.Add(ls.limits.longest)
	}
	for w := range ls.limits.timed.due(now) {
		ls.release(w)
	}
}

// endLimited subtracts a lease from the counts of its lane. If calls waited for that, they are offered again.
func (ls *lanes) endLimited(w *keyLane) {
	for _, key := range w.limits {
		c := ls.limits.counts[key]
		if c == nil {
			continue
		}
		if c.running--; c.waiting {
			c.waiting = false
			ls.refresh(func(f *family) bool { return c.matchesAnyKey(&f.lane) })
		}
		for held := range c.held {
			ls.release(held)
		}
		clear(c.held)
	}
}

// endShare subtracts a running call of a share. If it was the last one, the families that waited for that are offered again.
func (ls *lanes) endShare(s *share) {
	if s.running--; s.running > 0 {
		return
	}
	for f := range s.urgent {
		ls.markFresh(f)
	}
	s.urgent = nil
}
