package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"

	"github.com/orch-dev/orch/fault"
)

// The rules by which requests of one kind share messages.
const (
	// maxTrips is the number of messages under way from which on further requests wait for company.
	maxTrips = 4
	// maxParty is the number of requests in one message, maxPartyBytes the size of all of them.
	maxParty      = 256
	maxPartyBytes = 256 << 10
	// maxGuest is the size in bytes of a request that still shares a message.
	maxGuest = 16 << 10
)

// gather lets requests that are made at the same time share messages: while some are under way, the
// others wait and go together. A request that comes alone goes at once.
type gather[Out any] struct {
	// send asks in one message for many requests, which are encoded already and separated by commas,
	// and returns as many answers. Its error is that of all of them.
	send func(ctx context.Context, requests []byte) ([]answer[Out], error)

	mu      sync.Mutex
	trips   int
	waiting []*guest[Out]
}

type answer[Out any] struct {
	out Out
	err error
}

type guest[Out any] struct {
	request []byte
	done    chan answer[Out]
}

// do makes one request. When ctx ends first, it may have been done all the same.
func (g *gather[Out]) do(ctx context.Context, request any) (Out, error) {
	var none Out
	body, err := json.Marshal(request)
	if err != nil {
		return none, fault.Wrap(fault.Internal, err, "the request cannot be encoded")
	}
	me := &guest[Out]{request: body, done: make(chan answer[Out], 1)}
	if len(body) > maxGuest {
		g.ask(ctx, []*guest[Out]{me})
	} else if g.leave(me) {
		g.ask(ctx, []*guest[Out]{me})
		if party := g.next(); len(party) > 0 {
			go g.travel(party)
		}
	}
	select {
	case a := <-me.done:
		return a.out, a.err
	case <-ctx.Done():
		return none, fault.From(ctx.Err())
	}
}

// leave reports whether a request may go at once; it waits for company otherwise.
func (g *gather[Out]) leave(me *guest[Out]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.trips < maxTrips {
		g.trips++
		return true
	}
	g.waiting = append(g.waiting, me)
	return false
}

// travel sends parties until nobody waits.
func (g *gather[Out]) travel(party []*guest[Out]) {
	for len(party) > 0 {
		ctx, stop := context.WithTimeout(context.Background(), CallWithin)
		g.ask(ctx, party)
		stop()
		party = g.next()
	}
}

// next returns who goes in the next message, nobody when the trip is over.
func (g *gather[Out]) next() []*guest[Out] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n, size := 0, 0
	for n < min(len(g.waiting), maxParty) && size < maxPartyBytes {
		size += len(g.waiting[n].request)
		n++
	}
	party := g.waiting[:n:n]
	g.waiting = g.waiting[n:]
	if n == 0 {
		g.trips--
	}
	return party
}

func (g *gather[Out]) ask(ctx context.Context, party []*guest[Out]) {
	requests := make([][]byte, len(party))
	for i, p := range party {
		requests[i] = p.request
	}
	answers, err := g.send(ctx, bytes.Join(requests, []byte{','}))
	if err == nil && len(answers) != len(party) {
		err = fault.New(fault.Internal, "the node answered %d of %d requests", len(answers), len(party))
	}
	for i, p := range party {
		if err != nil {
			p.done <- answer[Out]{err: err}
		} else {
			p.done <- answers[i]
		}
	}
}
