package main

import (
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"strconv"
)

// garbage holds the memory of floor0 while it is in use, so that it is not on the stack.
var garbage [][]byte

// floor0 frees memory at the end of the heap, as code before main may do, and prints how many MiB of a floor allocated
// afterwards are resident.
func floor0() int {
	for range 32 {
		garbage = append(garbage, make([]byte, 64<<10))
	}
	garbage = nil
	runtime.GC()
	pages := 0
	for _, piece := range heapFloor() {
		pages += present(piece)
	}
	fmt.Println(pages * os.Getpagesize() >> 20)
	return 0
}

// present returns how many pages of memory are resident.
func present(piece []byte) int {
	const entry, there = 8, 1 << 63 // one word per page in pagemap, whose highest bit says that the page is present
	start, err := strconv.ParseInt(fmt.Sprintf("%p", piece)[2:], 16, 64)
	if err != nil {
		panic(err)
	}
	pages, err := os.Open("/proc/self/pagemap")
	if err != nil {
		panic(err)
	}
	defer func() { _ = pages.Close() }()
	size := int64(os.Getpagesize())
	words := make([]byte, int64(len(piece))/size*entry)
	if _, err := pages.ReadAt(words, start/size*entry); err != nil {
		panic(err)
	}
	n := 0
	for ; len(words) > 0; words = words[entry:] {
		if binary.NativeEndian.Uint64(words)&there != 0 {
			n++
		}
	}
	return n
}
