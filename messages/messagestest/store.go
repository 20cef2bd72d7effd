// Package messagestest has what tests of messages share: a store in memory, and the kit that every broker passes.
package messagestest

import (
	"context"
	"sync"

	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/messages"
)

// Store is a messages.Store in memory. Records never expire in it.
type Store struct {
	mu      sync.Mutex
	records []messages.Record
	newest  map[string]int
}

// key says what a record is about.
func key(r messages.Record) string {
	switch r.Kind {
	case messages.Taken:
		return "a " + r.ID + " " + r.Who
	case messages.Joined, messages.Left:
		return "g " + r.Group + " " + r.Who
	default:
		return "m " + r.Message.ID
	}
}

// Append implements messages.Store.
func (s *Store) Append(_ context.Context, r messages.Record) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil {
		s.newest = map[string]int{}
	}
	if _, known := s.newest[key(r)]; known && r.Kind == messages.Sent {
		return 0, fault.New(fault.Conflict, "there is a message %s already", r.Message.ID)
	}
	if r.Message != nil {
		m := *r.Message
		r.Message = &m
	}
	s.records = append(s.records, r)
	s.newest[key(r)] = len(s.records)
	return uint64(len(s.records)), nil
}

// Read implements messages.Store.
func (s *Store) Read(_ context.Context, id string) (messages.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, known := s.newest["m "+id]
	if !known {
		return messages.Record{}, fault.New(fault.NotFound, "there is no message %s", id)
	}
	return s.records[at-1], nil
}

// Sync implements messages.Store.
func (*Store) Sync() error { return nil }

// Open returns a service that knows what the store holds.
func (s *Store) Open(cfg messages.Config) *messages.Service {
	cfg.Store = s
	service := messages.New(cfg)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.records {
		if s.newest[key(r)] == i+1 {
			service.Learn(uint64(i+1), r)
		}
	}
	service.Reached(uint64(len(s.records)))
	return service
}
