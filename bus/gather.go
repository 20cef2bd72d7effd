package bus

import (
	"context"
	"encoding/json"
	"sync"

	"github.com/orch-dev/orch/fault"
)

// The rules by which requests of one kind share messages.
const (
	// maxTrips is the number of messages under way from which on further requests wait for company.
	maxTrips = 4
	// maxParty is the number of requests in one message. A request that would bring them to more than
	// maxPartyBytes goes in another one, so that it cannot make the message too large for the others.
	maxParty      = 256
	maxPartyBytes = 256 << 10
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
	request any
	done    chan answer[Out]
}

// do makes one request. When ctx ends first, it may have been done all the same.
func (g *gather[Out]) do(ctx context.Context, request any) (Out, error) {
	me := &guest[Out]{request: request, done: make(chan answer[Out], 1)}
	if g.leave(me) {
		g.ask(ctx, []*guest[Out]{me})
		if party := g.next(); len(party) > 0 {
			go g.travel(party)
		}
	}
	select {
	case a := <-me.done:
		return a.out, a.err
	case <-ctx.Done():
		return *new(Out), fault.From(ctx.Err())
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
		g.ask(context.Background(), party)
		party = g.next()
	}
}

// next returns who goes next, nobody when the trip is over.
func (g *gather[Out]) next() []*guest[Out] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.waiting), maxParty)
	party := g.waiting[:n:n]
	if g.waiting = g.waiting[n:]; n == 0 {
		g.trips--
		g.waiting = nil
	}
	return party
}

// ask sends a party in as few messages as it fits in.
func (g *gather[Out]) ask(ctx context.Context, party []*guest[Out]) {
	for len(party) > 0 {
		var requests []byte
		var aboard []*guest[Out]
		if requests, aboard, party = pack(party); len(aboard) > 0 {
			g.askOnce(ctx, requests, aboard)
		}
	}
}

// pack encodes the requests that fit into one message and returns who is in it and who is left.
func pack[Out any](party []*guest[Out]) (requests []byte, aboard, rest []*guest[Out]) {
	for i, p := range party {
		body, err := json.Marshal(p.request)
		if err != nil {
			p.done <- answer[Out]{err: fault.Wrap(fault.Internal, err, "the request cannot be encoded")}
			continue
		}
		if len(aboard) > 0 {
			if len(requests)+len(body) > maxPartyBytes {
				return requests, aboard, party[i:]
			}
			requests = append(requests, ',')
		}
		requests, aboard = append(requests, body...), append(aboard, p)
	}
	return requests, aboard, nil
}

func (g *gather[Out]) askOnce(ctx context.Context, requests []byte, party []*guest[Out]) {
	answers, err := g.send(ctx, requests)
	if err == nil && len(answers) != len(party) {
		err = fault.New(fault.Internal, "the node answered %d of %d requests", len(answers), len(party))
	}
	for i, p := range party {
		a := answer[Out]{err: err}
		if err == nil {
			a = answers[i]
		}
		p.done <- a
	}
}
