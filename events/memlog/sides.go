package memlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// Put implements events.Blobs.
func (l *Log) Put(_ context.Context, data []byte) (string, error) {
	sum := sha256.Sum256(data)
	ref := "sha256-" + hex.EncodeToString(sum[:])
	l.mu.Lock()
	defer l.mu.Unlock()
	l.blobs[ref] = bytes.Clone(data)
	return ref, nil
}

// Get implements events.Blobs.
func (l *Log) Get(_ context.Context, ref string) ([]byte, error) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	data, ok := l.blobs[ref]
	if !ok {
		return nil, fault.New(fault.NotFound, "there is no value %s", ref)
	}
	return bytes.Clone(data), nil
}

// Save implements events.Checkpoints.
func (l *Log) Save(_ context.Context, task events.TaskID, id string, data []byte) (string, error) {
	key, err := pointKey(task, id)
	if err != nil {
		return "", err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.points[key] = bytes.Clone(data)
	return "KV/ORCH_CHECKPOINTS/" + key, nil
}

// Load implements events.Checkpoints.
func (l *Log) Load(_ context.Context, task events.TaskID, id string) ([]byte, error) {
	key, err := pointKey(task, id)
	if err != nil {
		return nil, err
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	data, ok := l.points[key]
	if !ok {
		return nil, fault.New(fault.NotFound, "task %s has no checkpoint %s", task, id).WithField("checkpoint")
	}
	return bytes.Clone(data), nil
}

func pointKey(task events.TaskID, id string) (string, error) {
	if _, err := events.ParseTaskID(string(task)); err != nil {
		return "", err
	}
	const longest = 128
	if id == "" || len(id) > longest || strings.ContainsFunc(id, notInKey) {
		return "", fault.New(fault.InvalidFormat, "this is not an id of a checkpoint").WithField("checkpoint")
	}
	return string(task) + "." + id, nil
}

func notInKey(r rune) bool {
	letter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
	return !letter && (r < '0' || r > '9') && r != '_' && r != '-'
}
