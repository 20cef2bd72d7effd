package bus

import (
	"bytes"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/orch-dev/orch/events"
)

// removedSet remembers which tasks are in the records of removals that were read, so that a lookup of another task need not read them
// again: a hash of four bytes for each of these tasks.
type removedSet struct {
	seed maphash.Seed

	mu sync.Mutex
	// hashes has the sorted hashes of the tasks in the records of a subject.
	hashes map[string][]uint32
	// written counts the records that this process has written.
	written int
}

func newRemovedSet() *removedSet {
	return &removedSet{seed: maphash.MakeSeed(), hashes: map[string][]uint32{}}
}

// hash returns the hash of a task.
func (r *removedSet) hash(task []byte) uint32 {
	return uint32(maphash.Bytes(r.seed, task)) //nolint:gosec // half of a hash is a hash
}

// lacks reports whether the records of a subject were read and do not have a task. Otherwise it returns the number of records that were
// written so far, for learn.
func (r *removedSet) lacks(subject string, task events.TaskID) (lacks bool, written int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, read := r.hashes[subject]
	if !read {
		return false, r.written
	}
	_, found := slices.BinarySearch(known, r.hash([]byte(task)))
	return !found, r.written
}

// learn remembers the tasks in the records of a subject, unless a record was written since lacks.
func (r *removedSet) learn(subject string, tasks []uint32, written int) {
	slices.Sort(tasks)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.written == written {
		r.hashes[subject] = slices.Clip(tasks)
	}
}

// forget forgets the records of a subject, because one may have been added.
func (r *removedSet) forget(subject string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written++
	delete(r.hashes, subject)
}

// tasksIn appends the hashes of the tasks in a record of removals.
func (r *removedSet) tasksIn(record []byte, to []uint32) []uint32 {
	for line := range bytes.Lines(record) {
		task, _, _ := bytes.Cut(line, []byte(" "))
		to = append(to, r.hash(task))
	}
	return to
}
