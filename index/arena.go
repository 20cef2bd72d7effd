package index

import (
	"runtime"
	"syscall"
	"unsafe"
)

// arena gives memory outside of the heap, because the garbage collector would reserve as much again for memory in it. The memory
// is zero and comes in units of a byte for each row of a chunk. It is given back to the system when the arena is no longer
// reachable, so whoever uses it must keep the arena.
type arena struct {
	// rest is the part of the newest block that nobody has got.
	rest []byte
	// returned holds what was returned, by its size in units.
	returned [maxWidth + 1][][]byte
}

const (
	// maxWidth is the largest number of units that are given at once.
	maxWidth = 8
	// afterUnits is how many bytes after its end a piece of memory can be accessed. They may belong to others.
	afterUnits = 8
	blockSize  = 1 << 20
)

// get returns some units of memory, and afterUnits bytes.
func (a *arena) get(units uint32) []byte {
	if n := len(a.returned[units]); n > 0 {
		mem := a.returned[units][n-1]
		a.returned[units] = a.returned[units][:n-1]
		clear(mem[:units*chunkRows])
		return mem
	}
	size := int(units * chunkRows)
	if len(a.rest) < size+afterUnits {
		a.rest, _ = mapped(a, blockSize)
	}
	mem := a.rest[: size+afterUnits : size+afterUnits]
	a.rest = a.rest[size:]
	return mem
}

// put takes back what get has returned.
func (a *arena) put(mem []byte) {
	units := len(mem) / chunkRows
	a.returned[units] = append(a.returned[units], mem)
}

// mapped returns zero memory outside of the heap, and a function that gives it back to the system. The latter happens by itself
// when owner is no longer reachable. The memory is in the heap if the system refuses it.
func mapped[T any](owner *T, size int) (mem []byte, release func()) {
	mem, err := syscall.Mmap(-1, 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return make([]byte, size), func() {}
	}
	unmap := func(mem []byte) { _ = syscall.Munmap(mem) }
	cleanup := runtime.AddCleanup(owner, unmap, mem)
	return mem, func() {
		cleanup.Stop()
		unmap(mem)
	}
}

// numbersIn returns memory as numbers.
func numbersIn[T uint32 | uint64](mem []byte) []T {
	var one T
	size := int(unsafe.Sizeof(one))
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/size) //nolint:gosec // pages and blocks are aligned
}

// unitOf returns the unit of memory that begins with some numbers.
func unitOf(numbers []uint32) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), chunkRows+afterUnits) //nolint:gosec // see numbersIn
}
