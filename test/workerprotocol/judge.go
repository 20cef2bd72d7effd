package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/orch-dev/orch/fault"
)

// Limits of a request.
const (
	maxInstance = 64
	maxCalls    = 1000
)

// judge returns why a request is wrong, or nil. It notes what the request should have said otherwise. s.mu must be held.
func (s *standIn) judge(r *request) error {
	switch {
	case r.Instance == "" || len(r.Instance) > maxInstance:
		return fault.New(fault.ValidationError, "instance has %d bytes", len(r.Instance))
	case s.instance != "" && r.Instance != s.instance:
		return fault.New(fault.ValidationError, "the instance of the process has changed")
	case r.Wait < 0 || time.Duration(r.Wait) > longestWait:
		return fault.New(fault.ValidationError, "it asks to wait for %s", time.Duration(r.Wait))
	case len(r.Done) > maxCalls || len(r.Running) > maxCalls || r.Take < 0:
		return fault.New(fault.ValidationError, "it has %d reports, %d running calls and take %d", len(r.Done), len(r.Running), r.Take)
	case r.Leaving && r.Take > 0:
		return fault.New(fault.ValidationError, "a worker that leaves takes no calls")
	case s.left:
		return fault.New(fault.ValidationError, "it goes on after it has left")
	}
	s.instance = r.Instance
	s.requests++
	for _, d := range r.Done {
		if n := outcomes(d); n != 1 {
			return fault.New(fault.ValidationError, "a report has %d outcomes instead of one", n)
		}
		if s.find(d.ref) == nil {
			return fault.New(fault.ValidationError, "it reports a call that it did not get")
		}
	}
	s.left = r.Leaving
	s.judgeRunning(r)
	return nil
}

// outcomes counts the outcomes in a report.
func outcomes(d report) (n int) {
	for _, there := range []bool{d.Result != nil || d.Summary != "", d.HandTo != nil, d.Release, d.Error != "" && d.HandTo == nil && !d.Release} {
		if there {
			n++
		}
	}
	return n
}

// judgeRunning notes which calls a request names, and which ones it should name or should not.
func (s *standIn) judgeRunning(r *request) {
	for _, g := range s.calls {
		named := slices.ContainsFunc(r.Running, func(one running) bool { return one.ref == g.ref })
		done := slices.ContainsFunc(r.Done, func(one report) bool { return one.ref == g.ref })
		if named {
			g.named = append(g.named, r.began)
		}
		late := func(since time.Time) bool { return !since.IsZero() && r.began.Sub(since) > grace }
		switch {
		case late(g.over) && (named || done):
			s.problem("it still speaks of call %s, %s after it was over", g.Task, r.began.Sub(g.over).Round(time.Millisecond))
		case late(g.sent) && g.over.IsZero() && !named && !done && len(g.reports) == 0:
			s.problem("a request does not name call %s, which it has", g.Task)
		}
	}
	for _, one := range r.Running {
		if g := s.find(one.ref); g == nil || g.sent.IsZero() {
			s.problem("it names call %s, which it did not get", one.Task)
		}
	}
}

// receive takes the reports of a request and returns their receipts. s.mu must be held.
func (s *standIn) receive(r *request) (all []receipt) {
	for _, d := range r.Done {
		g := s.find(d.ref)
		g.reports = append(g.reports, d)
		out := receipt{ref: d.ref}
		if len(g.refuse) > 0 {
			out.Error, g.refuse = &g.refuse[0], g.refuse[1:]
		}
		g.accepted = g.accepted || out.Error == nil
		all = append(all, out)
	}
	return all
}

// same reports whether two reports say the same.
func same(a, b report) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}

// credential takes the digest of the secret to come.
func (s *standIn) credential(w http.ResponseWriter, body []byte) {
	var in struct {
		Digest string `json:"digest"`
	}
	if err := json.Unmarshal(body, &in); err != nil || len(in.Digest) != hex.EncodedLen(sha256.Size) {
		s.set(func() { s.problem("it sent a wrong request to renew its secret: %.200s", body) })
		reply(w, http.StatusBadRequest, problemBody("VALIDATION_ERROR", "digest is the SHA-256 of the next secret in hexadecimal digits", "digest"))
		return
	}
	s.set(func() { s.digest, s.secrets = in.Digest, nil }) // the secret that was used ends
	reply(w, http.StatusOK, map[string]any{"expires_at": time.Now().Add(24 * time.Hour).UTC().Format(time.RFC3339)})
}

// becomesValid reports whether a secret is the one whose digest the worker has sent. From then on it is the only valid one.
func (s *standIn) becomesValid(secret string) bool {
	sum := sha256.Sum256([]byte(secret))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.digest == "" || hex.EncodeToString(sum[:]) != s.digest {
		return false
	}
	s.secrets, s.digest = []string{secret}, ""
	s.touch()
	return true
}
