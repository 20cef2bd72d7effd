package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"mvdan.cc/sh/v3/syntax"
)

// Every command of orch in a page of the documentation exists, with its flags and the number of its arguments.
func TestEveryCommandInTheDocsExists(t *testing.T) {
	t.Parallel()
	pages := []string{"../../README.md", "../../CONTRIBUTING.md", "../../SECURITY.md", "../../skills/orch/SKILL.md"}
	for _, folder := range []string{"../../docs/how-to", "../../docs/tutorials", "../../docs/reference", "../../docs/explanation"} {
		require.NoError(t, filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if strings.HasSuffix(path, ".md") {
				pages = append(pages, path)
			}
			return err
		}))
	}
	seen := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, b := range shellBlocks(string(text)) {
			for _, c := range commandsIn(t, page, b) {
				seen++
				if err := checkCommand(t, c.words); err != nil {
					t.Errorf("%s:%d: %s: %v", page, c.line, strings.Join(c.words, " "), err)
				}
			}
		}
		for _, found := range span.FindAllStringSubmatch(string(text), -1) {
			seen++
			if err := checkSpan(t, strings.Fields(found[1])); err != nil {
				t.Errorf("%s: %s: %v", page, found[0], err)
			}
		}
	}
	assert.Greater(t, seen, 200, "the test finds the commands")
}

// A command that does not exist, or takes no such flag or argument, is found.
func TestCheckCommandBites(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{"submitt plan.yaml", "submit --no-such-flag plan.yaml", "get a b c", "mcp nothing", "schedule create"} {
		require.Error(t, checkCommand(t, strings.Fields(wrong)), wrong)
	}
	for _, right := range []string{"submit plan.yaml -i repo=.", "get @last -o json", "help exit-codes", "serve --http off"} {
		require.NoError(t, checkCommand(t, strings.Fields(right)), right)
	}
}

// shellBlock is a block of shell commands in a page. line is the number of its first line.
type shellBlock struct {
	line int
	text string
}

// shellBlocks returns the blocks of commands of a page: all of those marked sh, and what follows a prompt in those marked console.
func shellBlocks(page string) (blocks []shellBlock) {
	var kind string
	for i, line := range strings.Split(page, "\n") {
		fence, marked := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case marked && kind == "":
			kind = fence + " "
			blocks = append(blocks, shellBlock{line: i + 2})
		case marked:
			kind = ""
		case kind == "sh ":
			blocks[len(blocks)-1].text += strings.TrimPrefix(line, "   ") + "\n"
		case kind == "console ":
			command, _ := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			if !strings.HasPrefix(strings.TrimSpace(line), "$ ") {
				command = ""
			}
			blocks[len(blocks)-1].text += command + "\n"
		}
	}
	return blocks
}

// docCommand is a command of orch in a page, without the name of the program.
type docCommand struct {
	line  int
	words []string
}

// commandsIn returns the commands of orch in a block, also those in pipes and substitutions.
func commandsIn(t *testing.T, page string, b shellBlock) (commands []docCommand) {
	t.Helper()
	file, err := syntax.NewParser().Parse(strings.NewReader(b.text), page)
	require.NoError(t, err, "%s:%d: the block is no shell script", page, b.line)
	syntax.Walk(file, func(node syntax.Node) bool {
		call, ok := node.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		var words []string
		for _, arg := range call.Args {
			words = append(words, wordText(t, arg))
		}
		for len(words) > 0 && (words[0] == "sudo" || words[0] == "exec") {
			words = words[1:]
		}
		if len(words) > 0 && filepath.Base(words[0]) == "orch" {
			commands = append(commands, docCommand{b.line + int(call.Pos().Line()) - 1, words[1:]})
		}
		return true
	})
	return commands
}

// wordText returns a word of a command without its quotes; what the shell would put in is as it is written.
func wordText(t *testing.T, word *syntax.Word) string {
	t.Helper()
	var text bytes.Buffer
	for _, part := range word.Parts {
		switch p := part.(type) {
		case *syntax.SglQuoted:
			text.WriteString(p.Value)
		case *syntax.Lit:
			text.WriteString(p.Value)
		case *syntax.DblQuoted:
			text.WriteString(wordText(t, &syntax.Word{Parts: p.Parts}))
		default:
			require.NoError(t, syntax.NewPrinter().Print(&text, p))
		}
	}
	return text.String()
}

// checkCommand reports what is wrong with a command line, which is not run.
func checkCommand(t *testing.T, words []string) error {
	t.Helper()
	root := newRoot(newProbe(t).app)
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if help, err := cmd.Flags().GetBool("help"); err == nil && help {
		return nil
	}
	if takesArguments := strings.Contains(cmd.Use, " "); cmd.HasSubCommands() && !takesArguments && len(cmd.Flags().Args()) > 0 {
		return fmt.Errorf("%s has no command %q", cmd.CommandPath(), cmd.Flags().Args())
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// span is a command of orch within a sentence.
var span = regexp.MustCompile("`orch ([a-z][^`\\n]*)`")

// checkSpan reports what is wrong with a command in a sentence, which may leave arguments out and have placeholders.
func checkSpan(t *testing.T, words []string) error {
	t.Helper()
	root := newRoot(newProbe(t).app)
	root.InitDefaultHelpCmd()
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	for i, word := range rest {
		name, isFlag := strings.CutPrefix(strings.Trim(word, "[]"), "--")
		name, _, _ = strings.Cut(name, "=")
		switch {
		case word == "--":
			return nil
		case isFlag && cmd.Flags().Lookup(name) == nil && cmd.InheritedFlags().Lookup(name) == nil && name != "help":
			return fmt.Errorf("%s has no flag --%s", cmd.CommandPath(), name)
		case i == 0 && !isFlag && cmd.HasSubCommands() && regexp.MustCompile("^[a-z][a-z-]*$").MatchString(word) && cmd.Name() != "help":
			return fmt.Errorf("%s has no command %q", cmd.CommandPath(), word)
		}
	}
	return nil
}
