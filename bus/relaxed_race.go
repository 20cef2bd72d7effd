//go:build race

package bus

import "time"

// RelaxedEvery is how often the embedded server of a relaxed node syncs. The server (nats-server 2.15.2, setSyncTimer
// in newFileStoreWithCreated) starts the timer of a new stream before it assigns the field, without the lock under which the
// timer reads the field after half the period at the earliest. On a loaded machine a goroutine may be delayed that long, and
// the race detector fails the test; so the period is longer with it.
const RelaxedEvery = 2 * time.Second
