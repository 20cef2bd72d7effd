package bus

import (
	"hash/fnv"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

const (
	// headHeader carries the head of a task on every commit, so that a restart scans only headers.
	// One header with a compact value takes less space than one header per field.
	headHeader = "Orch"
	// maxName bounds the name of a task in a header, in bytes before escaping.
	maxName = 128
	// noParent is the parent in the value of a task without one.
	noParent = "-"
)

// headFields is the number of fields of a head.
const headFields = 6

// encodeHead returns "rev state at created parent name", with times in microseconds and the name URL-encoded. If before is not 0, it
// follows: the position of the task's commit before this one.
func encodeHead(h *events.Head, before uint64) string {
	parent := string(h.Parent)
	if parent == "" {
		parent = noParent
	}
	b := make([]byte, 0, 96)
	b = strconv.AppendUint(b, h.Rev, 10)
	b = append(append(append(b, ' '), url.QueryEscape(h.State)...), ' ')
	b = strconv.AppendInt(b, h.At.UnixMicro(), 10)
	b = strconv.AppendInt(append(b, ' '), h.Created.UnixMicro(), 10)
	b = append(append(append(b, ' '), parent...), ' ')
	b = append(b, url.QueryEscape(shorten(h.Name))...)
	if before > 0 {
		b = strconv.AppendUint(append(b, ' '), before, 10)
	}
	return string(b)
}

func shorten(name string) string {
	if len(name) <= maxName {
		return name
	}
	cut := maxName
	for cut > 0 && !utf8.RuneStart(name[cut]) {
		cut--
	}
	return name[:cut]
}

// decodeHead decodes the result of encodeHead for a task. DATA_LOSS if value is damaged.
func decodeHead(task events.TaskID, value string, seq uint64) (events.Head, error) {
	h := events.Head{Task: task, Seq: seq}
	value, _ = splitHead(value)
	fields := strings.Split(value, " ")
	if len(fields) != headFields {
		return h, damagedHead(h.Task, seq, nil)
	}
	var err [5]error
	var at, created int64
	h.Rev, err[0] = strconv.ParseUint(fields[0], 10, 64)
	h.State, err[1] = url.QueryUnescape(fields[1])
	at, err[2] = strconv.ParseInt(fields[2], 10, 64)
	created, err[3] = strconv.ParseInt(fields[3], 10, 64)
	h.Name, err[4] = url.QueryUnescape(fields[5])
	for _, e := range err {
		if e != nil {
			return h, damagedHead(h.Task, seq, e)
		}
	}
	h.At, h.Created = time.UnixMicro(at).UTC(), time.UnixMicro(created).UTC()
	if fields[4] != noParent {
		h.Parent = events.TaskID(fields[4])
	}
	return h, nil
}

// splitHead returns a head without the position of the task's commit before, and that position; 0 if the head does not say. The commit
// may be elsewhere, because the log was copied.
func splitHead(value string) (head string, before uint64) {
	if strings.Count(value, " ") < headFields {
		return value, 0
	}
	end := strings.LastIndexByte(value, ' ')
	before, _ = strconv.ParseUint(value[end+1:], 10, 64) // 0 after an error
	return value[:end], before
}

// commitBefore returns the position of the task's commit before the one with this header, as splitHead does.
func commitBefore(header nats.Header) uint64 {
	_, before := splitHead(header.Get(headHeader))
	return before
}

// archiveHead returns the head in the header of a commit as the archive has it, without the position of the commit before.
func archiveHead(header nats.Header) string {
	head, _ := splitHead(header.Get(headHeader))
	return head
}

// liveHead implements headOf for the live log: every message has a head.
func liveHead(subject string, header nats.Header, seq uint64) (events.Head, bool, error) {
	h, err := decodeHead(taskOf(subject), header.Get(headHeader), seq)
	return h, err == nil, err
}

// archivedHead implements headOf for the archive: only the last message of an archived history has a head. The Seq of the
// head is the position that the newest commit had in the live log.
func archivedHead(subject string, header nats.Header, _ uint64) (events.Head, bool, error) {
	if header.Get(partHeader) == "" {
		return events.Head{}, false, nil
	}
	task := archivedTask(subject, header)
	seq, err := strconv.ParseUint(header.Get(seqHeader), 10, 64)
	if err != nil {
		return events.Head{}, false, damagedHead(task, seq, err)
	}
	h, err := decodeHead(task, header.Get(headHeader), seq)
	h.Imported = header.Get(importHeader) != ""
	return h, err == nil, err
}

func damagedHead(task events.TaskID, seq uint64, err error) error {
	return fault.Wrap(fault.DataLoss, err, "the header of commit "+strconv.FormatUint(seq, 10)+" of task "+string(task)+" is damaged").
		WithHint("run: orch verify")
}

// The subjects of the streams.
const (
	liveRoot    = "orch.ev"
	archiveRoot = "orch.ar"
	// liveAll and archiveAll match all subjects. They must be spelled exactly like the subjects in the configuration of
	// the streams, so that the server skips the matching. With an equivalent pattern such as "orch.ev.>", the server would
	// compare every subject of a block for each message.
	liveAll    = liveRoot + ".*.*"
	archiveAll = archiveRoot + ".*.*"
)

// liveSubject returns "orch.ev.<partition>.<task>"; the partition is two hexadecimal digits of a hash, so
// that the log can be spread over several streams without renaming anything.
func liveSubject(task events.TaskID) string {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(task)) // never fails
	const digits = "0123456789abcdef"
	h := sum.Sum32()
	h ^= h >> 16
	h ^= h >> 8
	return liveRoot + "." + string([]byte{digits[h>>4&15], digits[h&15]}) + "." + string(task)
}

// taskOf returns the task in a subject, which is the last token.
func taskOf(subject string) events.TaskID {
	return events.TaskID(subject[strings.LastIndexByte(subject, '.')+1:])
}
