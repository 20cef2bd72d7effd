package node

import (
	"bufio"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// dropProgram removes the pages of the executable file from the memory of the process, because half of the pages that a start
// reads are never used again. A page that is used again is mapped from the page cache of the system with one fault (16 pages at
// once, about a microsecond). Errors are ignored, because this only saves memory.
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
	for _, s := range unmodified(mappings, program) {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, s.start, s.end-s.start, syscall.MADV_DONTNEED)
	}
}

// span is a range of addresses.
type span struct{ start, end uintptr }

// unmodified parses the text of /proc/PID/smaps and returns the read-only mappings of a file without modified pages. Dropping a
// modified page would lose its content: a position-independent program (PIE) has read-only pages with relocated addresses, and a
// debugger writes breakpoints into the code. smaps counts modified pages as anonymous or swapped out.
func unmodified(smaps io.Reader, file string) []span {
	var spans []span
	var current span
	lines := bufio.NewScanner(smaps)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), " ")
		switch value = strings.TrimSpace(value); {
		case !strings.HasSuffix(key, ":"):
			current = parseMapping(key, value, file)
		case (key == "Anonymous:" || key == "Swap:") && value != "0 kB":
			current = span{}
		case key == "VmFlags:" && current.end != 0: // the last line of each mapping
			spans = append(spans, current)
		}
	}
	return spans
}

// parseMapping returns the addresses of a read-only mapping of the file, or the zero span for any other mapping. addresses is
// the first column of a line of smaps. rest contains the other columns: permissions, offset, device, inode and path.
func parseMapping(addresses, rest, file string) span {
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
