package archtest

import (
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	fence     = regexp.MustCompile("^ {0,3}(```+|~~~+)")
	heading   = regexp.MustCompile(`^ {0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$`)
	codeSpan  = regexp.MustCompile("``[^`]+``|`[^`]*`")
	inline    = regexp.MustCompile(`\]\(\s*<?([^()<>\s]*(?:\([^()\s]*\)[^()<>\s]*)*)>?(?:\s+["'][^)]*)?\s*\)`)
	reference = regexp.MustCompile(`^ {0,3}\[[^\]]+\]:\s*<?([^\s>]+)`)
	linkText  = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	explicit  = regexp.MustCompile(`<a\s+(?:id|name)="([^"]+)"`)
	scheme    = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
	dropped   = regexp.MustCompile(`[^\p{L}\p{N}\p{M}_ -]`)
)

// StartPage is the page with links to all other pages below docs, except the decisions in docs/adr.
const StartPage = "docs/README.md"

// page contains the links of a Markdown file and its anchors, which other pages can link to.
type page struct {
	links   []link
	anchors map[string]bool
}

// link is a link with the number of its line.
type link struct {
	line   int
	target string
}

// CheckLinks returns a finding for each broken relative link in a Markdown file: its file does not exist, or the file
// has no heading with the anchor. It also returns a finding for each page below docs that StartPage does not link to.
// Links to other hosts are not checked.
func CheckLinks(root fs.FS) ([]string, error) {
	pages := map[string]page{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && ignored(name):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		text, err := fs.ReadFile(root, name)
		pages[name] = parsePage(string(text))
		return err
	})
	var findings []string
	listed := map[string]bool{StartPage: true}
	for name, p := range pages {
		for _, l := range p.links {
			to, problem := resolve(root, pages, name, l.target)
			if problem != "" {
				findings = append(findings, fmt.Sprintf("%s:%d: %s: %s", name, l.line, l.target, problem))
			}
			listed[to] = listed[to] || name == StartPage
		}
	}
	for name := range pages {
		if strings.HasPrefix(name, "docs/") && !strings.HasPrefix(name, "docs/adr/") && !listed[name] {
			findings = append(findings, name+": "+StartPage+" has no link to it")
		}
	}
	slices.Sort(findings)
	return findings, err
}

// resolve returns the file that a link of the page from leads to. If the link is broken, problem describes why.
func resolve(root fs.FS, pages map[string]page, from, target string) (to, problem string) {
	if scheme.MatchString(target) || strings.HasPrefix(target, "//") {
		return "", ""
	}
	file, anchor, hasAnchor := strings.Cut(target, "#")
	file, err := url.PathUnescape(file)
	if err != nil {
		return "", "is no URL"
	}
	to = from
	if file != "" {
		to = path.Join(path.Dir(from), file)
	}
	if path.IsAbs(file) || !fs.ValidPath(to) {
		return "", "leads out of the repository"
	}
	if _, err := fs.Stat(root, to); err != nil {
		return to, "there is no such file"
	}
	if p, isPage := pages[to]; hasAnchor && isPage && !p.anchors[anchor] {
		return to, "no heading has this anchor"
	}
	return to, ""
}

// parsePage returns the links and anchors of a page, except those in code.
func parsePage(text string) page {
	p := page{anchors: map[string]bool{}}
	closing := ""
	for number, line := range strings.Split(text, "\n") {
		if mark := fence.FindStringSubmatch(line); mark != nil {
			switch {
			case closing == "":
				closing = mark[1]
			case strings.HasPrefix(mark[1], closing):
				closing = ""
			}
			continue
		}
		if closing != "" {
			continue
		}
		if title := heading.FindStringSubmatch(line); title != nil {
			p.addAnchor(title[1])
		}
		line = codeSpan.ReplaceAllString(line, "")
		for _, id := range explicit.FindAllStringSubmatch(line, -1) {
			p.anchors[id[1]] = true
		}
		targets := inline.FindAllStringSubmatch(line, -1)
		targets = append(targets, reference.FindAllStringSubmatch(line, -1)...)
		for _, target := range targets {
			p.links = append(p.links, link{number + 1, target[1]})
		}
	}
	return p
}

// addAnchor adds the anchor that GitHub gives a heading. A heading that occurs again gets -1, -2 and so on.
func (p page) addAnchor(title string) {
	title = strings.ToLower(linkText.ReplaceAllString(title, "$1"))
	anchor := strings.ReplaceAll(dropped.ReplaceAllString(title, ""), " ", "-")
	unique := anchor
	for n := 1; p.anchors[unique]; n++ {
		unique = fmt.Sprintf("%s-%d", anchor, n)
	}
	p.anchors[unique] = true
}
