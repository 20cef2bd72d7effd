package site_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/orch-dev/orch/test/need"
)

// build builds the site and returns its folder.
func build(t *testing.T) string {
	t.Helper()
	need.Program(t, "hugo")
	folder := t.TempDir()
	output, err := exec.Command("hugo", "--source", "../../site", "--destination", folder, "--cacheDir", t.TempDir()).CombinedOutput()
	require.NoError(t, err, string(output))
	assert.NotContains(t, string(output), "WARN")
	return folder
}

// page is a page of the site: its title, its anchors and where its links lead.
type page struct {
	title   string
	anchors map[string]bool
	links   []string
}

// read returns the pages of a site by their paths.
func read(t *testing.T, folder string) map[string]page {
	t.Helper()
	pages := map[string]page{}
	require.NoError(t, filepath.WalkDir(folder, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".html" {
			return err
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		root, err := html.Parse(strings.NewReader(string(text)))
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, name)
		pages[filepath.ToSlash(relative)] = pageOf(root)
		return err
	}))
	return pages
}

func pageOf(root *html.Node) page {
	p := page{anchors: map[string]bool{}}
	for node := range root.Descendants() {
		if node.Data == "title" && node.FirstChild != nil && p.title == "" {
			p.title = node.FirstChild.Data
		}
		for _, a := range node.Attr {
			switch a.Key {
			case "id":
				p.anchors[a.Val] = true
			case "href", "src", "srcset":
				p.links = append(p.links, a.Val)
			}
		}
	}
	return p
}

// Every link of the site leads to a file of it, and to a heading that is there; whatever leaves it leads to the repository or to
// another host.
func TestEveryLinkOfTheSiteResolves(t *testing.T) {
	t.Parallel()
	folder := build(t)
	pages := read(t, folder)
	assert.Greater(t, len(pages), 100)
	seen := 0
	for name, p := range pages {
		for _, link := range p.links {
			seen++
			if err := check(folder, pages, name, link); err != nil {
				t.Errorf("%s: %s: %v", name, link, err)
			}
		}
	}
	assert.Greater(t, seen, 1000)
	for _, wrong := range []string{"none.html", "adr", "reference/plans.html#none", "#none", repository + "none.go", "how-to/none.md"} {
		require.Error(t, check(folder, pages, "index.html", wrong), wrong)
	}
}

// repository is where links to files that are not on the site lead.
const repository = "https://github.com/orch-dev/orch/blob/main/"

func check(folder string, pages map[string]page, from, link string) error {
	if file, ok := strings.CutPrefix(link, repository); ok {
		file, _, _ = strings.Cut(file, "#")
		_, err := os.Stat(filepath.Join("../..", filepath.FromSlash(file)))
		return err
	}
	to, err := url.Parse(link)
	if err != nil || to.IsAbs() {
		return err
	}
	target := from
	if to.Path != "" {
		target = path.Join(path.Dir(from), to.Path)
	}
	switch info, err := os.Stat(filepath.Join(folder, filepath.FromSlash(target))); {
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("this is a folder")
	}
	if p, ok := pages[target]; ok && to.Fragment != "" && !p.anchors[to.Fragment] {
		return fmt.Errorf("%s has no anchor %q", target, to.Fragment)
	}
	return nil
}

// Every page of the documentation is on the site, with a title, in the menu and in the index of the search.
func TestEveryPageIsOnTheSite(t *testing.T) {
	t.Parallel()
	folder := build(t)
	pages := read(t, folder)
	index, err := os.ReadFile(filepath.Join(folder, "pages.js"))
	require.NoError(t, err)
	sources, err := filepath.Glob("../../docs/*/*.md")
	require.NoError(t, err)
	require.NotEmpty(t, sources)
	for _, source := range sources {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.ToSlash(source), "../../docs/"), ".md") + ".html"
		if strings.Contains(name, "0000-template") {
			assert.NotContains(t, pages, name)
			continue
		}
		assert.Regexp(t, `^.+ · orch$`, pages[name].title, name)
		assert.Contains(t, pages["index.html"].links, name, "the menu leads to it")
		assert.Contains(t, string(index), `"path":"`+name+`"`)
	}
}

// What models read: llms.txt names pages that exist as Markdown, and llms-full.txt has their texts.
func TestPagesForModels(t *testing.T) {
	t.Parallel()
	folder := build(t)
	list, err := os.ReadFile(filepath.Join(folder, "llms.txt"))
	require.NoError(t, err)
	assert.Regexp(t, `^# orch\n\n> .+\n\n## Tutorials\n`, string(list))
	links := regexp.MustCompile(`\]\((\./[^)#]+)\)`).FindAllStringSubmatch(string(list), -1)
	assert.Greater(t, len(links), 60)
	full, err := os.ReadFile(filepath.Join(folder, "llms-full.txt"))
	require.NoError(t, err)
	for _, link := range links {
		if path.Ext(link[1]) != ".md" {
			continue
		}
		source, err := os.ReadFile(filepath.Join("../../docs", link[1]))
		require.NoError(t, err)
		published, err := os.ReadFile(filepath.Join(folder, link[1]))
		require.NoError(t, err)
		assert.Equal(t, source, published)
		if !strings.HasPrefix(link[1], "./releases/") {
			assert.Contains(t, string(full), string(source), link[1])
		}
	}
}
