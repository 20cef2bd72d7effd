package wire

import (
	"slices"
	"time"
)

// The fields of the answers that this package decodes.
const (
	commitTime = 2<<3 | bytes

	getFound   = 1<<3 | bytes
	getMissing = 2<<3 | bytes

	queryDocument = 1<<3 | bytes
)

// ReadCommit returns the time of the write in an answer to Commit.
func ReadCommit(answer []byte) (at time.Time, err error) {
	at = time.Unix(0, 0).UTC()
	err = read(answer, func(f field) (err error) {
		if f.tag == commitTime {
			at, err = readTime(f.bytes)
		}
		return err
	})
	return at, err
}

// ReadGet returns the document in an answer to Get, or the name of the missing document.
func ReadGet(answer []byte) (found *Document, missing string, err error) {
	err = read(answer, func(f field) (err error) {
		switch f.tag {
		case getFound:
			found, err = document(f.bytes)
		case getMissing:
			missing, err = f.text()
		default:
		}
		return err
	})
	return found, missing, err
}

// ReadQuery returns the document in an answer to RunQuery; nil if the answer only reports progress.
func ReadQuery(answer []byte) (found *Document, err error) {
	err = read(answer, func(f field) (err error) {
		if f.tag == queryDocument {
			found, err = document(f.bytes)
		}
		return err
	})
	return found, err
}

func document(m []byte) (*Document, error) {
	d := &Document{Fields: map[string]any{}, Updated: time.Unix(0, 0).UTC()}
	return d, read(m, func(f field) (err error) {
		switch f.tag {
		case documentName:
			d.Name, err = f.text()
		case documentField:
			err = entry(f.bytes, 0, d.Fields)
		case documentUpdated:
			d.Updated, err = readTime(f.bytes)
		default:
		}
		return err
	})
}

// News is an answer to Listen. At most one of its fields is set.
type News struct {
	Target *TargetChange
	// Changed is the new content of a document of the target.
	Changed *Document
	Gone    string // the name of a document that was deleted or is no longer part of the target
	Count   *int   // the number of documents of the target
}

// TargetState is the kind of a TargetChange.
type TargetState uint64

// The kinds of changes of a target.
const (
	NoChange TargetState = iota
	Added
	Removed
	Current
	Reset
)

// TargetChange is a change of the state of one or more targets.
type TargetChange struct {
	State TargetState
	// All is set if the change applies to all targets, Ours if it lists the target given to ReadNews.
	All, Ours bool
	// Code and Message are the reason why a target was removed.
	Code    uint32
	Message string
	Resume  []byte
	At      time.Time // zero if the change has no time
}

// The fields of ListenResponse, TargetChange, Status, DocumentChange, DocumentDelete, DocumentRemove and ExistenceFilter.
const (
	newsTarget = 2<<3 | bytes
	newsChange = 3<<3 | bytes
	newsDelete = 4<<3 | bytes
	newsFilter = 5<<3 | bytes
	newsRemove = 6<<3 | bytes

	changeState   = 1<<3 | varint
	changeTarget  = 2<<3 | varint
	changeTargets = 2<<3 | bytes
	changeCause   = 3<<3 | bytes
	changeResume  = 4<<3 | bytes
	changeTime    = 6<<3 | bytes

	causeCode    = 1<<3 | varint
	causeMessage = 2<<3 | bytes

	changedDocument = 1<<3 | bytes
	changedTarget   = 5<<3 | varint
	changedTargets  = 5<<3 | bytes
	changedRemoved  = 6<<3 | varint
	changedRemoveds = 6<<3 | bytes

	goneName = 1<<3 | bytes

	filterCount = 2<<3 | varint
)

// ReadNews decodes an answer to Listen. target is the id of the target.
func ReadNews(answer []byte, target int32) (news News, err error) {
	err = read(answer, func(f field) (err error) {
		switch f.tag {
		case newsTarget:
			news.Target, err = targetChange(f.bytes, target)
		case newsChange:
			news.Changed, news.Gone, err = documentChange(f.bytes, target)
		case newsDelete, newsRemove:
			news.Gone, err = gone(f.bytes)
		case newsFilter:
			news.Count, err = count(f.bytes)
		default:
		}
		return err
	})
	return news, err
}

func targetChange(m []byte, target int32) (*TargetChange, error) {
	c := &TargetChange{}
	var targets []int32
	err := read(m, func(f field) (err error) {
		switch f.tag {
		case changeState:
			c.State = TargetState(f.bits)
		case changeTarget, changeTargets:
			targets, err = f.numbers(targets)
		case changeCause:
			err = c.cause(f.bytes)
		case changeResume:
			c.Resume = slices.Clone(f.bytes)
		case changeTime:
			c.At, err = readTime(f.bytes)
		default:
		}
		return err
	})
	c.All, c.Ours = len(targets) == 0, slices.Contains(targets, target)
	return c, err
}

func (c *TargetChange) cause(m []byte) error {
	return read(m, func(f field) (err error) {
		switch f.tag {
		case causeCode:
			c.Code = uint32(f.bits) //nolint:gosec // an int32 is encoded in 64 bits; the upper bits are dropped
		case causeMessage:
			c.Message, err = f.text()
		default:
		}
		return err
	})
}

// documentChange returns the changed document if it is part of the target, or the name of a document that no longer is.
func documentChange(m []byte, target int32) (changed *Document, gone string, err error) {
	var targets, removed []int32
	var found *Document
	err = read(m, func(f field) (err error) {
		switch f.tag {
		case changedDocument:
			found, err = document(f.bytes)
		case changedTarget, changedTargets:
			targets, err = f.numbers(targets)
		case changedRemoved, changedRemoveds:
			removed, err = f.numbers(removed)
		default:
		}
		return err
	})
	switch {
	case err != nil || found == nil:
		return nil, "", err
	case slices.Contains(targets, target):
		return found, "", nil
	case slices.Contains(removed, target):
		return nil, found.Name, nil
	default:
		return nil, "", nil
	}
}

func gone(m []byte) (name string, err error) {
	err = read(m, func(f field) (err error) {
		if f.tag == goneName {
			name, err = f.text()
		}
		return err
	})
	return name, err
}

func count(m []byte) (*int, error) {
	n := 0
	return &n, read(m, func(f field) error {
		if f.tag == filterCount {
			n = int(int32(f.bits)) //nolint:gosec // an int32 is encoded in 64 bits; the upper bits are dropped
		}
		return nil
	})
}
