// Package web contains the page of a node: the built files of the folder dist, and their sources beside it. `make web` builds
// dist again; the program needs neither node nor npm.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Files returns the files of the page. Index is served for every path below the page that names no file; all other files have
// the digest of their content in their names, except the icon.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic("the embedded folder is missing: " + err.Error())
	}
	return files
}

// Index is the name of the file with the page, Base the path that the page is built for.
const (
	Index = "index.html"
	Base  = "/ui/"
)
