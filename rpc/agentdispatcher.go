package rpc

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/bus"
	"github.com/orch-dev/orch/fault"
)

// These headers mark an answer as an error. The micro services of NATS use the same headers.
const (
	serviceError     = "Nats-Service-Error"
	serviceErrorCode = "Nats-Service-Error-Code"
)

const (
	// maxAgentBody limits the bytes of a request of an agent. The limit over HTTP is the same.
	maxAgentBody = 5 << 20
	// maxAgentRequests limits the concurrent requests of one agent. maxAgentHeld limits the total bytes of the concurrent
	// requests of all agents.
	maxAgentRequests = 256
	maxAgentHeld     = 256 << 20
	// An answer that contains calls is stored for deliveryTTL, until the NATS server would have reported that nobody received
	// it. At most maxPendingDeliveries answers are stored.
	maxPendingDeliveries = 4096
	deliveryTTL          = time.Minute
	// requeueWithin limits the time for requeueing the calls of an answer that nobody received.
	requeueWithin = 30 * time.Second
)

// AgentDispatcher serves registered agents.
type AgentDispatcher interface {
	Claim(ctx context.Context, m agents.Member, c agents.Claim) (agents.Work, error)
	Heartbeat(ctx context.Context, m agents.Member, b agents.Heartbeat) (agents.Work, error)
	Report(ctx context.Context, m agents.Member, r agents.Report) error
	// Requeue requeues the calls of an answer that nobody received.
	Requeue(ctx context.Context, h agents.Delivery) error
}

// AgentMethod serves a request of an agent.
type AgentMethod func(ctx context.Context, m agents.Member, request []byte) ([]byte, error)

// HandleAgent converts a function on decoded values to an AgentMethod. It decodes and encodes like Handle.
func HandleAgent[In, Out any](fn func(context.Context, agents.Member, In) (Out, error)) AgentMethod {
	return func(ctx context.Context, m agents.Member, request []byte) ([]byte, error) {
		_, data, err := handle(ctx, request, func(ctx context.Context, in In) (Out, error) { return fn(ctx, m, in) })
		return data, err
	}
}

// AgentsConfig configures ServeAgentDispatcher. All fields but Logger are required.
type AgentsConfig struct {
	Dispatcher AgentDispatcher
	// Member returns the agent with an id: UNAUTHORIZED if it is no longer registered, or TOKEN_EXPIRED.
	Member func(ctx context.Context, id string) (agents.Member, error)
	// While returns a context that ends when the credential of an agent expires.
	While func(ctx context.Context, id string) (context.Context, context.CancelFunc)
	// Renew replaces the credential of an agent.
	Renew AgentMethod
	// Admit counts a request of size bytes. It returns RATE_LIMITED if the identity has too many requests in flight. leave ends
	// the request. Default: no limit.
	Admit func(who string, size int64) (leave func(), err error)
	// Status returns the HTTP status of a code.
	Status func(fault.Code) int
	// Logger receives the causes of internal errors. Default: discard.
	Logger *slog.Logger
}

// ServeAgentDispatcher serves registered agents at the subjects below AgentSubjects. Requests and answers have the same JSON as
// over HTTP. An answer with the header Nats-Service-Error is a fault.Error. If nobody receives an answer, its calls are requeued
// for matching agents.
func ServeAgentDispatcher(c *bus.Conn, cfg AgentsConfig) (*Endpoint, error) {
	end := EndpointConfig{
		Logger: cfg.Logger,
		headers: func(f *fault.Error) nats.Header {
			return nats.Header{serviceError: {f.Error()}, serviceErrorCode: {strconv.Itoa(cfg.Status(f.Code))}}
		},
		inbox: func(m *nats.Msg) bool {
			id, _ := parseAgentSubject(m)
			return strings.HasPrefix(m.Reply, bus.AgentInbox(id)+".")
		},
	}
	end.setDefaults()
	s := &agentServer{cfg: cfg, log: end.Logger, inFlight: map[string]int{}, deliveries: map[uint64]pendingDelivery{}, first: 1, clock: time.Now}
	returned := func(e *Endpoint, no uint64) { e.background(func(ctx context.Context) { s.requeue(ctx, no) }) }
	return serveAt(c, bus.AgentSubjects+".*.*", s.find, returned, end)
}

// agentServer serves registered agents.
type agentServer struct {
	cfg AgentsConfig
	log *slog.Logger

	mu sync.Mutex
	// inFlight counts the current requests of each agent, inFlightBytes is their total size.
	inFlight      map[string]int
	inFlightBytes int
	// deliveries contains the newest answers with calls, by number. The numbers are from first to last; those of requeued answers
	// are missing.
	deliveries  map[uint64]pendingDelivery
	first, last uint64
	clock       func() time.Time
}

// pendingDelivery is an answer with calls, and the time until which it is stored.
type pendingDelivery struct {
	agents.Delivery

	until time.Time
}

// parseAgentSubject returns the agent id and the method name in the subject of a request.
func parseAgentSubject(m *nats.Msg) (id, name string) {
	id, name, _ = strings.Cut(strings.TrimPrefix(m.Subject, bus.AgentSubjects+"."), ".")
	return id, name
}

// find returns the method of a request. It refuses a request without a reply subject, because the calls in its answer would be
// lost.
func (s *agentServer) find(m *nats.Msg) (method, error) {
	id, name := parseAgentSubject(m)
	if m.Reply == "" {
		return nil, fault.New(fault.InvalidRequest, "nobody waits for the answer")
	}
	var do func(context.Context, agents.Member, []byte) (response, error)
	switch name {
	case "tasks":
		do = s.claim
	case "status":
		do = unnumbered(HandleAgent(s.cfg.Dispatcher.Heartbeat))
	case "results":
		do = unnumbered(HandleAgent(func(ctx context.Context, m agents.Member, r agents.Report) (struct{}, error) {
			return struct{}{}, s.cfg.Dispatcher.Report(ctx, m, r)
		}))
	case "credential":
		do = unnumbered(s.cfg.Renew)
	default:
		return nil, fault.New(fault.NotFound, "there is no subject %q", name).WithHint("use tasks, status, results or credential")
	}
	return func(ctx context.Context, request []byte) (response, error) { return s.serve(ctx, id, request, do) }, nil
}

// unnumbered converts an AgentMethod to a method whose answers are not numbered.
func unnumbered(do AgentMethod) func(context.Context, agents.Member, []byte) (response, error) {
	return func(ctx context.Context, m agents.Member, request []byte) (response, error) {
		data, err := do(ctx, m, request)
		return response{data: data}, err
	}
}

// serve serves a request after checking that the agent is still registered, because a connection may outlive the registration.
func (s *agentServer) serve(ctx context.Context, id string, request []byte, do func(context.Context, agents.Member, []byte) (response, error)) (response, error) {
	if len(request) > maxAgentBody {
		return response{}, fault.New(fault.ValidationError, "the request has more than %d bytes", maxAgentBody).WithReason("SIZE_LIMIT_EXCEEDED")
	}
	m, err := s.cfg.Member(ctx, id)
	if err != nil {
		return response{}, err
	}
	if s.cfg.Admit != nil {
		leave, err := s.cfg.Admit(m.Actor(), int64(len(request)))
		if err != nil {
			return response{}, err
		}
		defer leave()
	}
	if err := s.admit(id, len(request)); err != nil {
		return response{}, err
	}
	defer s.release(id, len(request))
	return do(ctx, m, request)
}

// admit counts a request. It returns RATE_LIMITED if the agent has too many requests, and UNAVAILABLE if the requests of all
// agents are too large.
func (s *agentServer) admit(id string, size int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.inFlight[id] >= maxAgentRequests:
		return fault.New(fault.RateLimited, "the agent has %d requests in work", maxAgentRequests).WithHint("send fewer at the same time")
	case s.inFlightBytes+size > maxAgentHeld:
		return fault.New(fault.Unavailable, "the requests of agents hold too much memory").WithHint("try again in a moment")
	}
	s.inFlight[id]++
	s.inFlightBytes += size
	return nil
}

// release ends a request that admit has counted.
func (s *agentServer) release(id string, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlightBytes -= size
	if s.inFlight[id]--; s.inFlight[id] == 0 {
		delete(s.inFlight, id)
	}
}

// claim serves a claim. It numbers an answer with calls, so that the NATS server reports if nobody receives it.
func (s *agentServer) claim(ctx context.Context, m agents.Member, request []byte) (response, error) {
	ctx, cancel := s.cfg.While(ctx, m.ID) // an agent that is removed while it waits is assigned no call
	defer cancel()
	work, data, err := handle(ctx, request, func(ctx context.Context, c agents.Claim) (agents.Work, error) {
		return s.cfg.Dispatcher.Claim(ctx, m, c)
	})
	if err != nil || len(work.Calls) == 0 {
		return response{data: data}, err
	}
	return response{data: data, no: s.storeDelivery(agents.DeliveryTo(m, work))}, nil
}

// storeDelivery stores an answer for deliveryTTL, returns its number, and removes expired answers.
func (s *agentServer) storeDelivery(h agents.Delivery) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock()
	s.last++
	s.deliveries[s.last] = pendingDelivery{h, now.Add(deliveryTTL)}
	for ; s.first+maxPendingDeliveries <= s.last || !now.Before(s.deliveries[s.first].until); s.first++ { // stops at the newest answer, which has not expired
		delete(s.deliveries, s.first)
	}
	return s.last
}

// requeue requeues the calls of an answer that nobody received.
func (s *agentServer) requeue(ctx context.Context, no uint64) {
	s.mu.Lock()
	h, ok := s.deliveries[no]
	delete(s.deliveries, no)
	s.mu.Unlock()
	if !ok {
		return
	}
	ctx, stop := context.WithTimeout(ctx, requeueWithin)
	defer stop()
	if err := s.cfg.Dispatcher.Requeue(ctx, h.Delivery); err != nil {
		s.log.WarnContext(ctx, "the calls of an undelivered answer were not requeued", slog.String("agent", h.Agent), slog.Any("error", err))
	}
}
