package export_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/export"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

// TestRoundTrip: whatever histories a file holds, a reader gets the same bytes and the same folded tasks, and a second file of them
// is the same byte for byte.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		values := map[string][]byte{}
		all := make([]*history, rapid.IntRange(1, 4).Draw(t, "tasks"))
		for i := range all {
			all[i] = draw(t, fmt.Sprint("task ", i), values)
		}
		data, wrote := write(t, export.Config{}, all...)
		again, _ := write(t, export.Config{}, all...)
		require.Equal(t, data, again)

		commits, folded, read := map[events.TaskID][][]byte{}, map[events.TaskID]string{}, map[string][]byte{}
		report, err := export.Verify(bytes.NewReader(data), export.Visitor{
			Key: publicKey(1),
			Commit: func(c *events.Commit, data []byte, after *statemachine.Task) error {
				commits[c.Task] = append(commits[c.Task], bytes.Clone(data))
				folded[c.Task] = asJSON(t, after)
				for ref := range c.Refs() {
					require.Contains(t, read, ref, "values come first")
				}
				return nil
			},
			Value: func(digest string, data []byte) error { read[digest] = bytes.Clone(data); return nil },
		})
		require.NoError(t, err)
		require.Equal(t, wrote, report)
		require.Len(t, report.Tasks, len(all))
		for i, h := range all {
			require.Equal(t, h.data, commits[h.task.ID])
			require.Equal(t, asJSON(t, h.task), folded[h.task.ID])
			require.Equal(t, h.task.Head, report.Tasks[i].Last)
			require.Equal(t, h.task.Rev, report.Tasks[i].Commits)
		}
		for digest, data := range read {
			require.Equal(t, values[digest], data)
		}
	})
}

func asJSON(t require.TestingT, v any) string {
	data, err := json.Marshal(v)
	require.NoError(t, err)
	return string(data)
}

// TestAnyByte: a reader detects every changed byte, says where, and never answers with the wrong kind of error.
func TestAnyByte(t *testing.T) {
	t.Parallel()
	data, _ := sample(t)
	for i := range data {
		for _, flip := range []byte{0x01, 0x80, 0xff} {
			changed := bytes.Clone(data)
			changed[i] ^= flip
			_, err := export.Verify(bytes.NewReader(changed), export.Visitor{})
			require.Error(t, err, "byte %d", i)
			require.Contains(t, []fault.Code{fault.DataLoss, fault.InvalidFormat, fault.NewerStore}, fault.CodeOf(err), "byte %d: %v", i, err)
			require.Contains(t, err.Error(), "byte ", "byte %d", i)
		}
	}
}

// TestAnyLength: a reader detects that a file ends early or goes on.
func TestAnyLength(t *testing.T) {
	t.Parallel()
	data, _ := sample(t)
	for n := range data {
		_, err := export.Verify(bytes.NewReader(data[:n]), export.Visitor{})
		require.Error(t, err, "%d bytes", n)
	}
	for _, more := range [][]byte{{0}, []byte("x"), data} {
		_, err := export.Verify(bytes.NewReader(append(bytes.Clone(data), more...)), export.Visitor{})
		assert.Equal(t, fault.DataLoss, fault.CodeOf(err))
	}
}

// content returns the text of a file without the signature.
func content(t *testing.T, data []byte) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	require.NoError(t, err)
	text, err := io.ReadAll(z)
	require.NoError(t, err)
	before, _, found := strings.Cut(string(text), `{"algorithm"`)
	require.True(t, found)
	return before
}

// repack compresses a text and appends the signature of a file, which does not belong to it.
func repack(t *testing.T, text string, signature []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := io.WriteString(z, text)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return append(b.Bytes(), signature...)
}

// TestDamage changes the content of a file in ways that compression does not detect: each record has its own check, which names it.
func TestDamage(t *testing.T) {
	t.Parallel()
	data, all := sample(t)
	text := content(t, data)
	id := string(all[0].task.ID)
	swap := func(old, with string) string {
		require.Contains(t, text, old)
		return strings.Replace(text, old, with, 1)
	}
	lines := strings.SplitAfter(text, "\n")
	without := func(i int) string { return strings.Join(append(append([]string{}, lines[:i]...), lines[i+2:]...), "") }
	for name, c := range map[string]struct{ text, want string }{
		"commit":              {swap(`"step":"a"`, `"step":"b"`), "revision 2 of " + id + "), before byte"},
		"value":               {swap(`out out`, `OUT out`), "bytes do not have the digest"},
		"header":              {swap(`{"record":"commit"`, `{"record": "commit"`), "header is damaged"},
		"size":                {swap(`"record":"commit","task":"`+id+`","rev":1`, `"record":"commit","task":"`+id+`","rev":2`), "revision 1 of " + id},
		"missing value":       {without(1), "is not in the file"},
		"missing commit":      {without(5), "revision 3 of " + id},
		"missing first":       {without(3), "revision 2 follows 0"},
		"manifest":            {swap(`"node_version":"1.2.3"`, `"node_version":"1.2.4"`), "is not the one that was signed"},
		"commits in manifest": {swap(`"commits":3`, `"commits":2`), "does not describe the content"},
		"more":                {text + "x", "something follows the manifest"},
		"huge":                {swap(`"size":2`, `"size":99999999992`), "asks for"},
		"unknown record":      {strings.Replace(text, `{"record":"commit"`, `{"record":"secret"`, 1), "asks for a secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tail := data[bytes.LastIndex(data, []byte("\x1f\x8b\x08")):]
			_, err := export.Verify(bytes.NewReader(repack(t, c.text, tail)), export.Visitor{})
			require.Error(t, err)
			assert.Equal(t, fault.DataLoss, fault.CodeOf(err))
			assert.Contains(t, err.Error(), c.want)
		})
	}
}

func TestForeignFiles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		data []byte
		code fault.Code
	}{
		"empty": {nil, fault.InvalidFormat}, "text": {[]byte("hello\n"), fault.InvalidFormat},
		"gzip":  {repack(t, "hello\n", nil), fault.InvalidFormat},
		"newer": {repack(t, `{"format":"orch-export","version":2}`+"\n", nil), fault.NewerStore},
		"bomb":  {repack(t, `{"format":"orch-export","version":1}`+"\n"+strings.Repeat("\x00", 3<<20), nil), fault.DataLoss},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := export.Verify(bytes.NewReader(c.data), export.Visitor{})
			assert.Equal(t, c.code, fault.CodeOf(err), "%v", err)
		})
	}
}

// TestKeys: a file of another key is no damaged file, and the answer says which key it was.
func TestKeys(t *testing.T) {
	t.Parallel()
	data, all := sample(t)
	report, err := export.Verify(bytes.NewReader(data), export.Visitor{})
	require.NoError(t, err)
	assert.False(t, report.Pinned)
	assert.Equal(t, export.EncodeKey(publicKey(1)), report.Key)

	_, err = export.Verify(bytes.NewReader(data), export.Visitor{Key: publicKey(2)})
	assert.Equal(t, fault.Forbidden, fault.CodeOf(err))
	assert.Equal(t, "KEY_MISMATCH", fault.From(err).Reason)
	assert.Contains(t, err.Error(), export.Fingerprint(publicKey(1)))

	other, _ := write(t, export.Config{Key: key(2)}, all...)
	start := bytes.LastIndex(data, []byte("\x1f\x8b\x08"))
	assert.Equal(t, data[:start], other[:start], "only the signature depends on the key")
	_, err = export.ParseKey("AAAA")
	assert.Equal(t, fault.InvalidFormat, fault.CodeOf(err))
	parsed, err := export.ParseKey(report.Key)
	require.NoError(t, err)
	assert.Equal(t, publicKey(1), parsed)
}

// TestSecret: what holds a secret is not exported, and the error does not contain it.
func TestSecret(t *testing.T) {
	t.Parallel()
	_, all := sample(t)
	for _, secret := range []string{`"step":"a"`, "out out"} {
		w := export.NewWriter(io.Discard, export.Config{
			Key: key(1), Value: func(digest string) ([]byte, error) { return all[0].values[digest], nil },
			FindSecret: func(data []byte) (string, bool) { return "secrets.PW", bytes.Contains(data, []byte(secret)) },
		})
		var err error
		for _, data := range all[0].data {
			err = w.Commit(data)
		}
		_, closed := w.Close()
		require.ErrorIs(t, closed, err)
		assert.Equal(t, fault.SecretDetected, fault.CodeOf(err))
		assert.Contains(t, err.Error(), "of "+string(all[0].task.ID))
		assert.NotContains(t, err.Error(), secret)
	}
}

// TestRefusesBadHistories: a writer makes no file that a reader refuses.
func TestRefusesBadHistories(t *testing.T) {
	t.Parallel()
	_, all := sample(t)
	for name, commits := range map[string][][]byte{
		"none": {}, "gap": {all[0].data[0], all[0].data[2]}, "twice": {all[1].data[0], all[0].data[0], all[1].data[0]}, "no commit": {[]byte("{}")},
	} {
		w := export.NewWriter(io.Discard, export.Config{Key: key(1), Value: func(digest string) ([]byte, error) { return all[0].values[digest], nil }})
		for _, data := range commits {
			_ = w.Commit(data)
		}
		_, err := w.Close()
		assert.Equal(t, fault.DataLoss, fault.CodeOf(err), name)
	}
	for name, value := range map[string]func(string) ([]byte, error){
		"other":  func(string) ([]byte, error) { return []byte("other"), nil },
		"failed": func(string) ([]byte, error) { return nil, fault.New(fault.DataLoss, "it is gone") },
	} {
		w := export.NewWriter(io.Discard, export.Config{Key: key(1), Value: value})
		assert.Equal(t, fault.DataLoss, fault.CodeOf(w.Commit(all[0].data[0])), name)
	}
}

var errFull = errors.New("no room")

type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if f.left -= len(p); f.left < 0 {
		return 0, errFull
	}
	return len(p), nil
}

// TestWriteFails: an error of the underlying writer is not lost.
func TestWriteFails(t *testing.T) {
	t.Parallel()
	_, all := sample(t)
	for room := range 200 {
		w := export.NewWriter(&full{room}, export.Config{Key: key(1), Value: func(digest string) ([]byte, error) { return all[0].values[digest], nil }})
		for _, data := range all[0].data {
			_ = w.Commit(data)
		}
		_, err := w.Close()
		require.ErrorIs(t, err, errFull)
	}
}

// TestVisitorFails: an error of the caller comes back as it is.
func TestVisitorFails(t *testing.T) {
	t.Parallel()
	data, _ := sample(t)
	for _, v := range []export.Visitor{
		{Commit: func(*events.Commit, []byte, *statemachine.Task) error { return errFull }},
		{Value: func(string, []byte) error { return errFull }},
	} {
		_, err := export.Verify(bytes.NewReader(data), v)
		assert.Equal(t, errFull, err)
	}
}

// TestCompressible: content that would compress by more than the limit is written so that readers accept it.
func TestCompressible(t *testing.T) {
	t.Parallel()
	h := newHistory("zeros", map[string][]byte{})
	h.add(t, events.Event{Kind: events.TaskSubmitted, Data: &events.Submitted{Name: "zeros", Inputs: h.large(strings.Repeat("0", 5<<20))}})
	data, report := write(t, export.Config{}, h)
	read, err := export.Verify(bytes.NewReader(data), export.Visitor{Key: publicKey(1)})
	require.NoError(t, err)
	assert.Equal(t, report, read)
	assert.Less(t, len(data), 1<<20)
}

func FuzzVerify(f *testing.F) {
	data, _ := sample(f)
	f.Add(data)
	f.Add([]byte{})
	f.Add(data[:len(data)/2])
	f.Fuzz(func(t *testing.T, input []byte) {
		_, err := export.Verify(bytes.NewReader(input), export.Visitor{})
		if err == nil && !bytes.Equal(input, data) {
			t.Fatal("a file that nobody has signed was accepted")
		}
	})
}
