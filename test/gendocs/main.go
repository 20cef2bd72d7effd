// Command gendocs generates the pages of docs that document tables in the program. A test checks that the pages are
// current.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/orch-dev/orch/httpapi/rest"
	"github.com/orch-dev/orch/internal/config"
)

//go:generate go run . -root ../.. -out ../../docs/reference

// page is one generated file.
type page struct {
	name string
	text func() string
}

// pages returns the pages that are generated from the program alone.
func pages() []page {
	return []page{{"statemachine.md", stateMachine}, {"tools.md", catalogue}, {"metrics.md", metricsPage}}
}

func main() {
	root := flag.String("root", ".", "the `folder` of the module")
	out := flag.String("out", "docs/reference", "the `folder` to write to")
	flag.Parse()
	if err := write(*root, *out); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "gendocs:", err)
		os.Exit(1) //nolint:forbidigo // this is main
	}
}

// write writes all pages to folder. root is the folder of the module.
func write(root, folder string) error {
	for _, p := range pages() {
		if err := os.WriteFile(filepath.Join(folder, p.name), []byte(p.text()), 0o644); err != nil { //nolint:gosec // a public page
			return err
		}
	}
	if err := writeOpenAPI(folder); err != nil {
		return err
	}
	if err := writeRequirements(root, folder); err != nil {
		return err
	}
	return writeSettings(filepath.Join(folder, "settings.md"))
}

// writeOpenAPI writes the description of the HTTP API.
func writeOpenAPI(folder string) error {
	data, err := rest.OpenAPI()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "openapi.json"), append(data, '\n'), 0o644) //nolint:gosec // a public page
}

// writeSettings replaces the table of settings in a page. It does nothing if the page does not exist.
func writeSettings(file string) error {
	page, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	head, _, _ := strings.Cut(config.Markdown(), "\n")
	before, tail, found := strings.Cut(string(page), head)
	if !found {
		return fmt.Errorf("%s has no table of settings", file)
	}
	_, after, _ := strings.Cut(tail, "|\n\n")
	return os.WriteFile(file, []byte(before+config.Markdown()+"\n"+after), 0o644) //nolint:gosec // a public page
}

// document builds the text of a page.
type document struct{ strings.Builder }

func (d *document) line(format string, args ...any) { _, _ = fmt.Fprintf(d, format+"\n", args...) }

// table writes a Markdown table.
func (d *document) table(head []string, rows [][]string) {
	d.line("")
	writeRow(d, head)
	d.line("|%s", strings.Repeat("---|", len(head)))
	for _, row := range rows {
		writeRow(d, row)
	}
	d.line("")
}

func writeRow(w io.Writer, cells []string) {
	_, _ = fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
}
