package node

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// calmEvery is how often the node looks whether a load has passed.
	calmEvery = 10 * time.Second
	// calmBytes is the most that a calm node allocates between two looks.
	calmBytes = 8 << 20
	// spareBytes is how much free memory is worth giving back.
	spareBytes = 32 << 20
)

// memory is what the runtime says about the heap.
type memory struct{ allocated, free uint64 }

func readMemory() memory {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}}
	metrics.Read(samples)
	return memory{samples[0].Value.Uint64(), samples[1].Value.Uint64() + samples[2].Value.Uint64()}
}

// giveBack returns memory to the system when a load has passed. The runtime itself collects in an idle
// process only every two minutes, and keeps what it has collected for the next load.
func giveBack(ctx context.Context) {
	tick := time.NewTicker(calmEvery)
	defer tick.Stop()
	last, used := readMemory(), false
	for calm := 0; ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := readMemory()
		if now.allocated-last.allocated > calmBytes {
			calm, used = 0, true
		} else {
			calm++
		}
		if calm == 2 && (used || now.free > spareBytes) { // after the caches of the store have expired
			debug.FreeOSMemory()
			used = false
		}
		last = readMemory()
	}
}
