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
	// calmTicks calm checks in a row, again after cacheTicks, when the caches of the store have expired, and after each multiple
	// of lateTicks. After the start, one calm check is enough.
	calmTicks  = 8
	cacheTicks = 20
	lateTicks  = 60
	calmBytes  = 8 << 20
	// Between two runs of the garbage collector, the heap grows by usualPercent, or by up to mostPercent if it allocates that much a
	// second. But it grows by at most a limit (nodeHeadroom, workerHeadroom), unless that were less than leastPercent of it.
	leastPercent, usualPercent, mostPercent = 40, 100, 150 // usualPercent is the default of GOGC
	nodeHeadroom                            = 512 << 20
	workerHeadroom                          = 64 << 20
)

// memory contains heap statistics of the runtime, in bytes.
type memory struct{ allocated, live uint64 }

func readMemory() memory {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return memory{samples[0].Value.Uint64(), samples[1].Value.Uint64()}
}

// limitMemory sets GOGC until ctx ends: so that the garbage collector runs less often under load, but the heap grows by at most headroom
// bytes, or leastPercent, in between. After a load it returns memory to the system. The runtime alone would
// do so late: in an idle process it collects only every two minutes, and then keeps the free memory. Before, shed drops what the
// process has in memory only to be fast.
func limitMemory(ctx context.Context, headroom uint64, shed func()) {
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
		allocated := now.allocated - last.allocated
		if want := percentFor(now.live, allocated, headroom); usual == usualPercent && differs(want, percent) { // only if the user has not set GOGC
			percent = want
			debug.SetGCPercent(percent)
		}
		if calm++; allocated > calmBytes {
			calm = 0
		}
		if calm == calmTicks || calm == cacheTicks || calm > 0 && calm%lateTicks == 0 {
			shed()
			debug.FreeOSMemory()
			dropProgram() // last, because the collector would load dropped pages again
		}
		last = readMemory()
	}
}

// percentFor returns GOGC for a heap with live bytes that allocates so many bytes a second and may grow by headroom.
func percentFor(live, rate, headroom uint64) int {
	const whole, smallest = 100, 4 << 20
	live = max(live, smallest) // the runtime has not collected yet if it is 0
	wanted := min(max(rate*whole/live, usualPercent), mostPercent)
	return int(max(min(wanted, headroom*whole/live), leastPercent))
}

// differs reports whether two values of GOGC differ by so much that the change is worth a pause of the process.
func differs(a, b int) bool {
	const tenth = 10
	return max(a, b)-min(a, b) > max(a, b)/tenth
}
