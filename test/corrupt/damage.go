// Package corrupt damages files of a data directory, so that a test can check whether the node detects the damage. Each
// Damage concerns one file. It is chosen by a random source, so a seed repeats it.
package corrupt

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Way is a way to damage a file.
type Way string

const (
	// Flip inverts one bit.
	Flip Way = "flip"
	// Cut truncates the file.
	Cut Way = "cut"
	// Gone deletes the file.
	Gone Way = "gone"
)

// Damage describes how one file is damaged.
type Damage struct {
	// Kind is the kind of file, such as "block of ORCH_EVENTS".
	Kind string
	// File is relative to the data directory.
	File string
	Way  Way
	// At is the offset of the changed byte, or the new size; Bit is the bit of the byte.
	At  int64
	Bit int
}

// String formats the damage in one line.
func (d Damage) String() string {
	switch d.Way {
	case Flip:
		return fmt.Sprintf("%s: bit %d of byte %d", d.File, d.Bit, d.At)
	case Cut:
		return fmt.Sprintf("%s: cut to %d bytes", d.File, d.At)
	default:
		return d.File + ": gone"
	}
}

// Pick returns a random damage to a data directory. Every kind of file is equally likely, except that each kind of
// block is three times as likely, because blocks contain the data.
func Pick(r *rand.Rand, dir string) (Damage, error) {
	files, err := list(dir)
	if err != nil {
		return Damage{}, err
	}
	var kinds []string
	for kind := range files {
		kinds = append(kinds, kind)
		if strings.HasPrefix(kind, "block") {
			kinds = append(kinds, kind, kind)
		}
	}
	slices.Sort(kinds) // map order is random, so a seed would not repeat the choice
	kind := kinds[r.IntN(len(kinds))]
	d := Damage{Kind: kind, File: files[kind][r.IntN(len(files[kind]))]}
	info, err := os.Stat(filepath.Join(dir, d.File))
	if err != nil {
		return d, err
	}
	const ways = 8 // five flips, two cuts, one deletion
	switch n := r.IntN(ways); {
	case info.Size() == 0 || n == 0:
		d.Way = Gone
	case n <= 2:
		d.Way, d.At = Cut, r.Int64N(info.Size())
	default:
		d.Way, d.At, d.Bit = Flip, r.Int64N(info.Size()), r.IntN(8)
	}
	return d, nil
}

// Bytes returns one damage for every byte in the files of a data directory: the flip of a random bit. It skips the
// files LOCK and reserve, because their content does not matter.
func Bytes(r *rand.Rand, dir string) ([]Damage, error) {
	files, err := list(dir)
	if err != nil {
		return nil, err
	}
	var all []Damage
	for _, kind := range slices.Sorted(maps.Keys(files)) {
		if kind == "LOCK" || kind == "reserve" {
			continue
		}
		for _, name := range files[kind] {
			info, err := os.Stat(filepath.Join(dir, name))
			if err != nil {
				return nil, err
			}
			for at := range info.Size() {
				all = append(all, Damage{Kind: kind, File: name, Way: Flip, At: at, Bit: r.IntN(8)})
			}
		}
	}
	return all, nil
}

// list returns the files below dir by kind.
func list(dir string) (map[string][]string, error) {
	files := map[string][]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		files[kindOf(name)] = append(files[kindOf(name)], name)
		return err
	})
	return files, err
}

// kindOf returns the kind of a file: its base name, or for a block of a stream the name of the stream.
func kindOf(name string) string {
	base := filepath.Base(name)
	if filepath.Ext(base) == ".blk" {
		return "block of " + filepath.Base(filepath.Dir(filepath.Dir(name)))
	}
	return base
}

// Apply damages the file in the data directory dir.
func (d Damage) Apply(dir string) error {
	path := filepath.Join(dir, d.File)
	switch d.Way {
	case Gone:
		return os.Remove(path)
	case Cut:
		return os.Truncate(path, d.At)
	default:
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		data[d.At] ^= 1 << d.Bit
		return os.WriteFile(path, data, 0o600) //nolint:gosec // the path is below the given directory
	}
}
