package bus

import (
	_ "embed"
	"errors"

	"github.com/klauspost/compress/s2"

	"github.com/orch-dev/orch/fault"
)

// packedMark is the first byte of a commit that is compressed with the first dictionary; a block of S2 follows. A commit that is not
// compressed begins with '{'. Another dictionary needs another mark, and another version of the store.
const packedMark = 0x01

// compactVersion is the version of the store from which on commits may be compressed, and each says where the one before it is, and
// archived histories share subjects. New stores begin with it.
const compactVersion = 3

// packedRoom is the room that is kept for compressed commits: more than most of them need while they are made.
const packedRoom = 8 << 10

// commitWords is the text of the dictionary: what commits often contain, the most frequent last, where a copy takes the fewest bytes.
// It must never change, because stores have commits that refer to it.
//
//go:embed commit1.dict
var commitWords string

// commitDict is the dictionary. The first copy of a block refers to the last place in it where a commit begins.
var commitDict = s2.MakeDict([]byte(commitWords), []byte(`{"v":1,"task":"TASK_01`))

func isPacked(stored []byte) bool { return len(stored) > 0 && stored[0] == packedMark }

// packCommit returns a commit as it is stored: compressed, in room if that suffices, or as it is if that takes less space.
func packCommit(room, commit []byte) []byte {
	if most := 1 + s2.MaxEncodedLen(len(commit)); most > cap(room) {
		room = make([]byte, most)
	}
	packed := room[:cap(room)]
	packed[0] = packedMark
	packed = packed[:1+len(commitDict.Encode(packed[1:], commit))]
	if len(packed) >= len(commit) && !isPacked(commit) {
		return commit
	}
	return packed
}

// unpackCommit returns the commit that packCommit has stored. Errors: DATA_LOSS, also for a commit that is larger than most.
func unpackCommit(stored []byte, most int) ([]byte, error) {
	if !isPacked(stored) {
		return stored, nil
	}
	block := stored[1:]
	size, err := s2.DecodedLen(block)
	if err == nil && size > most {
		err = errors.New("it is too large")
	}
	var commit []byte
	if err == nil {
		commit, err = commitDict.Decode(nil, block)
	}
	if err != nil {
		return nil, fault.Wrap(fault.DataLoss, err, "a compressed commit of the log is damaged").WithHint("run: orch verify")
	}
	return commit, nil
}
