package recipes_test

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// recipe is what a section of CONTRIBUTING.md tells its reader to do.
type recipe struct {
	title string
	steps []step
}

// step is a fenced block: a new file, an edit of a file, or commands.
type step struct {
	// file is the path of the file that the block makes or edits, empty for commands.
	file string
	// content is the text of a new file.
	content string
	// edits replace parts of a file.
	edits []edit
	// commands is a script of the shell.
	commands string
}

// edit replaces one part of a file. Both parts are whole lines.
type edit struct{ old, new string }

var (
	section = regexp.MustCompile(`(?m)^### (.+)$`)
	fence   = regexp.MustCompile("(?ms)^ *```([a-z]+)\n(.*?)^ *```$")
	created = regexp.MustCompile(`^// ([\w./-]+\.go)\n`)
	edited  = regexp.MustCompile(`^--- ([\w./-]+)\n`)
)

// parse returns the recipes of a page: the sections of the third level below its section "Recipes".
func parse(page string) ([]recipe, error) {
	_, page, found := strings.Cut(page, "\n## Recipes\n")
	if !found {
		return nil, errors.New("the page has no section Recipes")
	}
	page, _, _ = strings.Cut(page, "\n## ")
	heads := section.FindAllStringSubmatchIndex(page, -1)
	var all []recipe
	for i, head := range heads {
		end := len(page)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		r := recipe{title: page[head[2]:head[3]]}
		for _, block := range fence.FindAllStringSubmatch(page[head[1]:end], -1) {
			s, err := parseStep(block[1], unindent(block[2]))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", r.title, err)
			}
			r.steps = append(r.steps, s)
		}
		all = append(all, r)
	}
	return all, nil
}

// unindent takes the spaces away by which a block stands below a numbered step.
func unindent(block string) string {
	lines := strings.SplitAfter(block, "\n")
	spaces := len(lines[0]) - len(strings.TrimLeft(lines[0], " "))
	for i, line := range lines {
		lines[i] = line[min(spaces, len(line)-len(strings.TrimLeft(line, " "))):]
	}
	return strings.Join(lines, "")
}

func parseStep(language, block string) (step, error) {
	switch language {
	case "go":
		name := created.FindStringSubmatch(block)
		if name == nil {
			return step{}, fmt.Errorf("a block of Go does not begin with its file: %.60q", block)
		}
		return step{file: name[1], content: strings.TrimPrefix(block, name[0])}, nil
	case "diff":
		name := edited.FindStringSubmatch(block)
		if name == nil {
			return step{}, fmt.Errorf("an edit does not begin with its file: %.60q", block)
		}
		edits, err := parseEdits(strings.TrimPrefix(block, name[0]))
		return step{file: name[1], edits: edits}, err
	case "sh":
		return step{commands: block}, nil
	default:
		return step{}, fmt.Errorf("a block is %s, not go, diff or sh", language)
	}
}

// parseEdits reads hunks that "@@" parts: lines that stay, go ("-") and come ("+").
func parseEdits(text string) ([]edit, error) {
	var edits []edit
	for hunk := range strings.SplitSeq(text, "@@\n") {
		var e edit
		for line := range strings.Lines(hunk) {
			switch line[0] {
			case '-':
				e.old += line[1:]
			case '+':
				e.new += line[1:]
			case ' ':
				e.old, e.new = e.old+line[1:], e.new+line[1:]
			default:
				return nil, fmt.Errorf("a line of an edit begins with none of space, - and +: %q", line)
			}
		}
		if e.old == "" || e.old == e.new {
			return nil, fmt.Errorf("an edit changes nothing, or no place that it names: %q", hunk)
		}
		edits = append(edits, e)
	}
	return edits, nil
}

// apply returns the text after the edits. The lines that an edit replaces stand in it once.
func apply(text string, edits []edit) (string, error) {
	for _, e := range edits {
		switch strings.Count("\n"+text, "\n"+e.old) {
		case 0:
			return "", fmt.Errorf("there is no place for the edit: %q", e.old)
		case 1:
			text = strings.TrimPrefix(strings.Replace("\n"+text, "\n"+e.old, "\n"+e.new, 1), "\n")
		default:
			return "", fmt.Errorf("the place of the edit is not the only one: %q", e.old)
		}
	}
	return text, nil
}
