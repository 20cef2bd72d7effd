package main

import (
	"cmp"
	"crypto/tls"
	"net"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/orch-dev/orch/fault"
)

// The steps of the test of a model, in order. A script has only the first and the last of the answer.
const (
	stepSettings  = "settings"
	stepKey       = "key"
	stepResolve   = "resolve"
	stepConnect   = "connect"
	stepTLS       = "tls"
	stepFirstByte = "first byte"
	stepAnswer    = "answer"
	stepTools     = "tools"
	stepResult    = "result"
	// stepRequest is what lies between the others, such as the request to a proxy.
	stepRequest = "request"
)

// modelStep is a step of the test of a model.
type modelStep struct {
	Name     string        `json:"name"`
	Duration time.Duration `json:"duration"`
	// Detail is what was seen.
	Detail string       `json:"detail,omitempty"`
	Error  *fault.Error `json:"error,omitempty"`
}

// modelSteps measures the steps of a test. It is safe for concurrent use, because the hooks of a connection may be called late.
type modelSteps struct {
	now func() time.Time

	mu    sync.Mutex // guards the rest
	list  []modelStep
	open  string // the step that has begun; "" if there is none
	since time.Time
}

// begin begins a step, unless it has begun or ended already.
func (s *modelSteps) begin(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended := slices.ContainsFunc(s.list, func(step modelStep) bool { return step.Name == name })
	if s.open != name && !ended {
		s.open, s.since = name, s.now()
	}
}

// end ends a step that has begun.
func (s *modelSteps) end(name, detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == name {
		s.list = append(s.list, modelStep{Name: name, Duration: s.now().Sub(s.since), Detail: detail})
		s.open = ""
	}
}

// fail ends the step that has begun with an error.
func (s *modelSteps) fail(err *fault.Error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	step := modelStep{Name: cmp.Or(s.open, stepRequest), Error: err}
	if s.open != "" {
		step.Duration = s.now().Sub(s.since)
	}
	s.list, s.open = append(s.list, step), ""
}

// current returns the step that has begun.
func (s *modelSteps) current() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return cmp.Or(s.open, stepRequest)
}

// all returns the steps that have ended.
func (s *modelSteps) all() []modelStep {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// trace returns the hooks that divide a request into steps.
func (s *modelSteps) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn:  func(string) { s.begin(stepConnect) },
		DNSStart: func(httptrace.DNSStartInfo) { s.begin(stepResolve) },
		DNSDone: func(info httptrace.DNSDoneInfo) {
			if info.Err == nil {
				s.end(stepResolve, addressList(info.Addrs))
			}
		},
		ConnectStart: func(string, string) { s.begin(stepConnect) },
		ConnectDone: func(_, address string, err error) {
			if err == nil {
				s.end(stepConnect, address)
			}
		},
		TLSHandshakeStart: func() { s.begin(stepTLS) },
		TLSHandshakeDone: func(state tls.ConnectionState, err error) {
			if err == nil {
				s.end(stepTLS, tls.VersionName(state.Version))
			}
		},
		GotConn: func(httptrace.GotConnInfo) { s.begin(stepFirstByte) },
		GotFirstResponseByte: func() {
			s.end(stepFirstByte, "")
			s.begin(stepAnswer)
		},
	}
}

// addressList joins addresses.
func addressList(addresses []net.IPAddr) string {
	texts := make([]string, len(addresses))
	for i, a := range addresses {
		texts[i] = a.String()
	}
	return strings.Join(texts, ", ")
}
