//go:build !race

package bus

// relaxedEvery is how often the embedded server of a node that is relaxed syncs.
const relaxedEvery = "100ms"
