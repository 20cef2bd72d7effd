// Package messagestest provides a message store in memory, and conformance tests for brokers.
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

// key returns the key of a record. Of several records with the same key, only the newest counts.
func key(r messages.Record) string {
	switch r.Kind {
	case messages.RecipientDone:
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

// Open returns a service with the records of the store applied.
func (s *Store) Open(cfg messages.Config) *messages.Service {
	cfg.Store = s
	service := messages.New(cfg)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range s.records {
		if s.newest[key(r)] == i+1 {
			service.Apply(uint64(i+1), r)
		}
	}
	service.AdvanceTo(uint64(len(s.records)))
	return service
}
