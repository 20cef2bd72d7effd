package node

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// memoryEvery is the interval at which the node checks its memory.
	memoryEvery = time.Second
	// calmTicks is how many checks in a row must be calm before memory is returned, and lateTicks how many before each further
	// return: the caches of the store have expired by then. After the start, one calm check is enough. calmBytes is the most
	// that is allocated between two calm checks.
	calmTicks = 20
	lateTicks = 60
	calmBytes = 8 << 20
	// largeHeap is the heap size from which on the collector runs more often, at largePercent of growth.
	largeHeap    = 192 << 20
	largePercent = 40
	usualPercent = 100
)

// memory contains heap statistics of the runtime, in bytes.
type memory struct{ allocated, live uint64 }

func readMemory() memory {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return memory{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// keepSmall keeps the process small. With a large heap, such as that of a long queue, it trades some time for memory. After a
// load it returns memory to the system. The runtime itself does so late: it collects in an idle process only every two minutes,
// and retains what it has collected.
func keepSmall(ctx context.Context) {
	usual := debug.SetGCPercent(usualPercent) // the only way to read it
	debug.SetGCPercent(usual)
	defer debug.SetGCPercent(usual)
	percent := usual
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	last, calm := readMemory(), calmTicks-1
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := readMemory()
		if want := percentFor(now.live); usual == usualPercent && want != percent { // GOGC is not set
			percent = want
			debug.SetGCPercent(percent)
		}
		if calm++; now.allocated-last.allocated > calmBytes {
			calm = 0
		}
		if calm == calmTicks || calm > 0 && calm%lateTicks == 0 {
			debug.FreeOSMemory()
			dropProgram() // last, because the collector needs some of it
		}
		last = readMemory()
	}
}

func percentFor(live uint64) int {
	if live > largeHeap {
		return largePercent
	}
	return usualPercent
}
