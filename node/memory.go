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
	// A check is calm if at most calmBytes were allocated since the previous check. Memory is returned to the system after
	// calmTicks calm checks in a row, and again after each multiple of lateTicks, when the caches of the store have expired.
	// After the start, one calm check is enough.
	calmTicks = 20
	lateTicks = 60
	calmBytes = 8 << 20
	// Above largeHeap bytes, the garbage collector runs more often: GOGC is largePercent instead of usualPercent.
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

// limitMemory keeps the memory of the process small until ctx ends. With a large heap, such as that of a long queue, it lowers
// GOGC. After a load it returns memory to the system. The runtime alone would do so late: in an idle process it collects only
// every two minutes, and then keeps the free memory.
func limitMemory(ctx context.Context) {
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
		if want := percentFor(now.live); usual == usualPercent && want != percent { // only if the user has not set GOGC
			percent = want
			debug.SetGCPercent(percent)
		}
		if calm++; now.allocated-last.allocated > calmBytes {
			calm = 0
		}
		if calm == calmTicks || calm > 0 && calm%lateTicks == 0 {
			debug.FreeOSMemory()
			dropProgram() // last, because the collector would load dropped pages again
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
