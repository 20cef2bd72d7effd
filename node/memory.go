package node

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// memoryEvery is how often the node looks at its memory.
	memoryEvery = time.Second
	// calmTicks is how many looks in a row must be calm until memory is given back, and lateTicks from one time
	// to the next after that: the caches of the store have expired by then. After the start, one calm look is enough.
	// calmBytes is the most that is allocated between two calm looks.
	calmTicks = 20
	lateTicks = 60
	calmBytes = 8 << 20
	// largeHeap is the heap from which on the collector runs more often, at largePercent of growth.
	largeHeap    = 192 << 20
	largePercent = 40
	usualPercent = 100
)

// memory is what the runtime says about the heap, in bytes.
type memory struct{ allocated, live uint64 }

func readMemory() memory {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return memory{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// keepSmall keeps the process small. With a large heap, such as that of a long queue, it trades some time
// for memory; when a load has passed it returns memory to the system, which the runtime itself does late:
// it collects in an idle process only every two minutes, and keeps what it has collected.
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
		if want := percentFor(now.live); usual == usualPercent && want != percent { // nobody has set GOGC
			percent = want
			debug.SetGCPercent(percent)
		}
		if calm++; now.allocated-last.allocated > calmBytes {
			calm = 0
		}
		if calm == calmTicks || calm > 0 && calm%lateTicks == 0 {
			debug.FreeOSMemory()
			dropProgram() // the last, for the collector needs some of it
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
