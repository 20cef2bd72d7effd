//go:build race

package bus

import "time"

// RelaxedEvery is how often the embedded server of a node that is relaxed syncs. The server (nats-server 2.15.2, setSyncTimer
// in newFileStoreWithCreated) starts the timer of a new stream before it notes it, without the lock under which the timer
// reads the note after half the period at the earliest. Where a loaded machine lets a goroutine wait for so long in between,
// the race detector ends the test, so the period is longer with it.
const RelaxedEvery = 2 * time.Second
