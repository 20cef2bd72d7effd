//go:build !race

package bus

import "time"

// RelaxedEvery is how often the embedded server of a relaxed node syncs.
const RelaxedEvery = 100 * time.Millisecond
