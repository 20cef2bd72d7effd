package pathguard

import (
	"context"
	"io/fs"
)

// Walk visits everything below the directory rel, but not rel itself, sorted by name within each directory. It does not
// follow links and skips hidden paths. An unreadable directory below rel counts as empty. visit may return fs.SkipDir
// and fs.SkipAll.
func (r *Root) Walk(ctx context.Context, rel string, visit func(rel string, entry fs.DirEntry) error) error {
	if err := r.checkPresent(rel); err != nil {
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
			return skipEntry(entry)
		default:
			return visit(at, entry)
		}
	})
	return r.fail(rel, err)
}

// skipEntry returns the result with which a walk skips an entry and its content.
func skipEntry(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}
