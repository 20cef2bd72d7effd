//go:build !race

package bus

import "time"

// RelaxedEvery is how often the embedded server of a node that is relaxed syncs.
const RelaxedEvery = 100 * time.Millisecond
