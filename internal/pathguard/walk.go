package pathguard

import (
	"context"
	"io/fs"
)

// Walk visits everything below the directory rel, but not rel itself, each directory sorted by name.
// It does not follow links and passes over what is hidden. A directory below rel that cannot be read counts as empty. visit may
// return fs.SkipDir and fs.SkipAll.
func (r *Root) Walk(ctx context.Context, rel string, visit func(rel string, entry fs.DirEntry) error) error {
	if err := r.sees(rel); err != nil {
		return err
	}
	err := fs.WalkDir(r.dir.FS(), rel, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case at == rel:
			return r.fail(rel, err)
		case err != nil:
			return fs.SkipDir
		case r.hides(at), r.Lacks(at):
			return passOver(entry)
		default:
			return visit(at, entry)
		}
	})
	return r.fail(rel, err)
}

// passOver leaves out an entry, with what is in it, and goes on with the next one.
func passOver(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}
