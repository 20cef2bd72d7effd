package node

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// dropProgram drops the pages of the program itself from the memory of the process, because half of the pages that a start
// reads are never needed again. A page that is needed comes back from the page cache of the system, with one fault (16 pages at
// once, about a microsecond). This only saves memory, so errors are ignored.
func dropProgram() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	mappings, err := os.Open("/proc/self/smaps")
	if err != nil {
		return
	}
	defer func() { _ = mappings.Close() }()
	for _, s := range untouched(mappings, program) {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, s.start, s.end-s.start, syscall.MADV_DONTNEED)
	}
}

// span is a range of addresses.
type span struct{ start, end uintptr }

// untouched returns the mappings of a file which are read-only and whose pages are all those of the file, from the text of
// /proc/PID/smaps. Dropping a modified page would lose it: a position-independent program (PIE) has read-only pages with
// relocated addresses, and a debugger writes its breakpoints into the code. Such pages are anonymous, or swapped out.
func untouched(smaps io.Reader, file string) []span {
	var spans []span
	var current span
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), " ")
		switch value = strings.TrimSpace(value); {
		case !strings.HasSuffix(key, ":"):
			current = readOnly(key, value, file)
		case (key == "Anonymous:" || key == "Swap:") && value != "0 kB":
			current = span{}
		case key == "VmFlags:" && current.end != 0: // the last line of each mapping
			spans = append(spans, current)
		}
	}
	return spans
}

// readOnly returns the addresses of a mapping, or the zero span unless it is a read-only mapping of the file. addresses is the
// first column of its line, rest the others: permissions, offset, device, inode and path.
func readOnly(addresses, rest, file string) span {
	const columns = 5
	fields := strings.Fields(rest)
	if len(fields) < columns || fields[0] != "r-xp" && fields[0] != "r--p" || !strings.HasSuffix(rest, " "+file) {
		return span{}
	}
	first, last, _ := strings.Cut(addresses, "-")
	start, err := strconv.ParseUint(first, 16, 64)
	end, err2 := strconv.ParseUint(last, 16, 64)
	if err != nil || err2 != nil {
		return span{}
	}
	return span{uintptr(start), uintptr(end)}
}
