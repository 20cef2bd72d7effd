package rest

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/internal/sse"
)

const (
	// MaxStreams is the most open streams of the node.
	MaxStreams = 1000
	// MaxStreamsEach is the most open streams of one identity.
	MaxStreamsEach = 32
)

// streamLimits counts open streams.
type streamLimits struct {
	mu    sync.Mutex
	total int
	each  map[string]int
}

// open counts a stream. It returns RATE_LIMITED if there are too many.
func (l *streamLimits) open(who string, now time.Time) (end func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.total >= MaxStreams || l.each[who] >= MaxStreamsEach {
		return nil, fault.New(fault.RateLimited, "too many streams are open").WithReason("TOO_MANY_STREAMS").WithRetryAt(now.Add(5*time.Second)).
			WithHint("an identity may have %d streams, and the node %d", MaxStreamsEach, MaxStreams)
	}
	if l.each == nil {
		l.each = map[string]int{}
	}
	l.total++
	l.each[who]++
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.total--
		if l.each[who]--; l.each[who] == 0 {
			delete(l.each, who)
		}
	}, nil
}

// openStream counts a stream, and ends the count of its request. The context ends with the request, the server or the login.
func (s *Server) openStream(x *exchange) (ctx context.Context, end func(), err error) {
	free, err := s.streams.open(x.client.Name(), s.cfg.Now())
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(x.r.Context())
	unbind := context.AfterFunc(s.life, cancel)
	expire := func() {}
	if x.login != nil {
		ctx, expire = context.WithTimeout(ctx, x.login.Expires.Sub(s.cfg.Now()))
	}
	x.leave()
	return ctx, func() { expire(); unbind(); cancel(); free() }, nil
}

// eventWriter writes values as server-sent events.
type eventWriter struct{ *sse.Writer }

// frame returns an encoded event. An empty id leaves the last id of the client unchanged.
func frame(id, name string, value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "an event cannot be encoded")
	}
	var out []byte
	if id != "" {
		out = append(out, "id: "+id+"\n"...)
	}
	out = append(out, "event: "+name+"\ndata: "...)
	out = append(out, data...)
	return append(out, "\n\n"...), nil
}

// event writes an event. The caller flushes it.
func (e eventWriter) event(id, name string, value any) error {
	f, err := frame(id, name, value)
	if err != nil {
		return err
	}
	return e.Write(f)
}
