package node

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// mapping is one of /proc/PID/smaps.
func mapping(line, anonymous, swap string) string {
	return line + "\nSize:    100 kB\nRss:    80 kB\nAnonymous:    " + anonymous + "\nSwap:    " + swap + "\nVmFlags: rd ex mr mw me\n"
}

func TestUnmodified(t *testing.T) {
	t.Parallel()
	const code = "00400000-00500000 r-xp 00000000 fe:00 12    /opt/my programs/orch"
	for name, test := range map[string]struct {
		smaps string
		want  []span
	}{
		"code":                  {mapping(code, "0 kB", "0 kB"), []span{{0x400000, 0x500000}}},
		"constants":             {mapping(strings.Replace(code, "r-xp", "r--p", 1), "0 kB", "0 kB"), []span{{0x400000, 0x500000}}},
		"variables":             {mapping(strings.Replace(code, "r-xp", "rw-p", 1), "0 kB", "0 kB"), nil},
		"shared":                {mapping(strings.Replace(code, "r-xp", "r-xs", 1), "0 kB", "0 kB"), nil},
		"a breakpoint":          {mapping(code, "4 kB", "0 kB"), nil},
		"addresses swapped out": {mapping(code, "0 kB", "8 kB"), nil},
		"another file":          {mapping(strings.Replace(code, "/opt/my programs", "/opt", 1), "0 kB", "0 kB"), nil},
		"no file":               {mapping("00400000-00500000 r--p 00000000 00:00 0", "0 kB", "0 kB"), nil},
		"cut off":               {strings.TrimSuffix(mapping(code, "0 kB", "0 kB"), "VmFlags: rd ex mr mw me\n"), nil},
		"each by itself": {
			mapping(code, "4 kB", "0 kB") + mapping(strings.Replace(code, "00500000", "00600000", 1), "0 kB", "0 kB"),
			[]span{{0x400000, 0x600000}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.Equal(t, test.want, unmodified(strings.NewReader(test.smaps), "/opt/my programs/orch"))
		})
	}
}

func TestDropProgram(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	before := resident(t)
	dropProgram()
	assert.Less(t, resident(t), before)
}

// resident returns how much of the program is in the memory of the process, in KiB.
func resident(t *testing.T) int {
	t.Helper()
	program, err := os.Readlink("/proc/self/exe")
	require.NoError(t, err)
	smaps, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	require.NotEmpty(t, unmodified(bytes.NewReader(smaps), program), "the code of this very program")
	kib, current := 0, span{}
	for line := range strings.Lines(string(smaps)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case !strings.HasSuffix(key, ":"):
			current = parseMapping(key, value, program)
		case key == "Rss:" && current.end != 0:
			size, err := strconv.Atoi(strings.Fields(value)[0])
			require.NoError(t, err)
			kib += size
		}
	}
	return kib
}
