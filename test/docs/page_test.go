package docs_test

import (
	"fmt"
	"regexp"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// unitKind says what is done with a unit.
type unitKind int

const (
	// command is run.
	command unitKind = iota
	// file is written.
	file
	// shown is compared with the output of the commands above it.
	shown
	// other is a block that says nothing about what is done with it.
	other
)

// unit is a part of a page with which one thing is done: a command of a block, or a whole block.
type unit struct {
	kind unitKind
	// line is the number of its first line in the page, block that of its block.
	line, block int
	// language is that of the block.
	language string
	text     string
	// name is that of a file.
	name string
}

// head returns the first line of a unit, by which directions name it.
func (u unit) head() string {
	line, _, _ := strings.Cut(strings.TrimSpace(u.text), "\n")
	return line
}

var (
	fence = regexp.MustCompile("^( *)```(.*)$")
	named = regexp.MustCompile(`^(?:#|//) (~?[\w./-]+\.\w+)$`)
)

// parse returns the units of a page in their order.
func parse(page string) ([]unit, error) {
	var units []unit
	lines := strings.Split(page, "\n")
	for i := 0; i < len(lines); i++ {
		opened := fence.FindStringSubmatch(lines[i])
		if opened == nil {
			continue
		}
		first := i + 1
		for i++; i < len(lines) && strings.TrimSpace(lines[i]) != "```"; i++ {
			lines[i] = strings.TrimPrefix(lines[i], opened[1])
		}
		if i == len(lines) {
			return nil, fmt.Errorf("line %d: the block has no end", first)
		}
		of, err := parseBlock(opened[2], first+1, lines[first:i])
		if err != nil {
			return nil, err
		}
		units = append(units, of...)
	}
	return units, nil
}

// parseBlock returns the units of a block whose first line has a number.
func parseBlock(language string, first int, lines []string) ([]unit, error) {
	whole := unit{kind: other, line: first, block: first, language: language, text: strings.Join(lines, "\n") + "\n"}
	switch language {
	case "sh":
		return commands(whole)
	case "console":
		return console(whole, lines)
	case "", "text":
		whole.kind = shown
	default:
		if len(lines) == 0 {
			return nil, fmt.Errorf("line %d: the block is empty", first)
		}
		if name := named.FindStringSubmatch(lines[0]); name != nil {
			whole.kind, whole.name = file, name[1]
		}
	}
	return []unit{whole}, nil
}

// commands returns the commands of a block of the shell. Commands that share a line are one unit.
func commands(whole unit) ([]unit, error) {
	parsed, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(whole.text), "")
	if err != nil {
		return nil, fmt.Errorf("line %d: the block is no script of the shell: %w", whole.line, err)
	}
	var starts []int
	last := 0
	for _, statement := range parsed.Stmts {
		if line := int(statement.Pos().Line()); line > last {
			starts = append(starts, line)
		}
		last = max(last, int(statement.End().Line()))
	}
	lines := strings.SplitAfter(whole.text, "\n")
	var units []unit
	for i, start := range starts {
		end := len(lines)
		if i+1 < len(starts) {
			end = starts[i+1] - 1
		}
		units = append(units, unit{
			kind: command, line: whole.line + start - 1, block: whole.block, text: strings.Join(lines[start-1:end], ""),
		})
	}
	return units, nil
}

// console returns the commands of a block, which follow a prompt, and the output below each.
func console(whole unit, lines []string) ([]unit, error) {
	var units []unit
	for i, line := range lines {
		if text, prompt := strings.CutPrefix(line, "$ "); prompt {
			units = append(units, unit{kind: command, line: whole.line + i, block: whole.line + i, text: text + "\n"})
			continue
		}
		if len(units) == 0 {
			return nil, fmt.Errorf("line %d: the block begins without a prompt", whole.line)
		}
		if units[len(units)-1].kind == command {
			units = append(units, unit{kind: shown, line: whole.line + i, block: whole.line + i})
		}
		units[len(units)-1].text += line + "\n"
	}
	return units, nil
}
