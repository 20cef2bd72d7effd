//go:build race

package bus

import "time"

// RelaxedEvery is how often the embedded server of a relaxed node syncs. It is longer with the race detector because of a race
// in nats-server 2.15.2 (setSyncTimer in newFileStoreWithCreated). The server starts the sync timer of a new stream and then
// assigns it to a field without a lock. The timer reads that field after half the period at the earliest. On a loaded machine
// the assignment may be delayed by 50 ms, and the race detector would fail the test.
const RelaxedEvery = 2 * time.Second
