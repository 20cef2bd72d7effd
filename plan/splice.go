package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// shellFunction is the name of the function that quotes a value for a shell.
const shellFunction = "shell"

// shellQuote returns its argument as one word of a POSIX shell, and a list as several words.
func shellQuote(args ...any) (any, error) {
	if len(args) != 1 {
		return nil, fmt.Errorf("%s takes one argument, not %d", shellFunction, len(args))
	}
	list, ok := args[0].([]any)
	if !ok {
		return shellWord(args[0])
	}
	words := make([]string, len(list))
	for i, item := range list {
		word, err := shellWord(item)
		if err != nil {
			return nil, err
		}
		words[i] = word
	}
	return strings.Join(words, " "), nil
}

func shellWord(v any) (string, error) {
	text, err := toText(v)
	if err != nil {
		return "", err
	}
	if strings.ContainsRune(text, 0) {
		return "", errors.New("a text with a NUL cannot be a word of a command")
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'", nil
}

// checkSplices warns of expressions in a shell command that are not quoted with the function shell, or are quoted
// twice.
func (l *linker) checkSplices(with any, info ToolInfo, at location) {
	given, _ := with.(map[string]any)
	command, _ := given[info.Command].(string)
	if at.doc.warn == nil || info.Command == "" || command == "" {
		return
	}
	parts, err := segments(command)
	if err != nil {
		return // reported when the string was compiled
	}
	at = at.field("with").field(info.Command)
	var quotes shellQuotes
	for _, part := range parts {
		if !part.expression {
			quotes.read(part.text)
			continue
		}
		tree, err := parser.Parse(part.text)
		if err != nil {
			continue
		}
		source := shorten(strings.TrimSpace(part.text))
		switch quoted := isShellCall(tree.Node); {
		case quoted && quotes.quote != 0:
			at.warnIn(part.text, fmt.Sprintf("`%s` is in quotes, which end the protection of %s()", source, shellFunction),
				"leave out the quotes around it")
		case !quoted && !l.harmlessInShell(tree.Node):
			at.warnIn(part.text, fmt.Sprintf("the shell reads the value of `%s` as a part of the command: its content can run", source),
				fmt.Sprintf("write %s %s(%s) %s, or pass it by `env` or `argv` of the tool", opening, shellFunction, source, closing))
		}
	}
}

func isShellCall(n ast.Node) bool {
	call, ok := n.(*ast.CallNode)
	if !ok {
		return false
	}
	callee, ok := call.Callee.(*ast.IdentifierNode)
	return ok && callee.Value == shellFunction
}

// harmlessInShell reports whether no possible value of an expression has a special meaning in a shell.
func (l *linker) harmlessInShell(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.StringNode, *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return true // the author wrote it
	case *ast.ConditionalNode:
		return l.harmlessInShell(n.Exp1) && l.harmlessInShell(n.Exp2)
	case *ast.IdentifierNode:
		return n.Value == rootIndex
	case *ast.MemberNode:
		root, ok := n.Node.(*ast.IdentifierNode)
		name, fixed := n.Property.(*ast.StringNode)
		switch {
		case !ok || !fixed:
			return false
		case root.Value == rootTask:
			return name.Value == "id" || name.Value == "attempt"
		default:
			return root.Value == rootInputs && l.plainInput(name.Value)
		}
	default:
		return isShellCall(n)
	}
}

// plainInput reports whether an input is a number, a boolean or an enum of plain words.
func (l *linker) plainInput(name string) bool {
	if l.inputs.schema == nil {
		return false
	}
	property := l.inputs.schema.Properties[name]
	if property == nil {
		return false
	}
	if property.Enum != nil {
		return plainWords(property.Enum.Values)
	}
	types := property.Types.ToStrings()
	return len(types) == 1 && slices.Contains([]string{"integer", "number", "boolean"}, types[0])
}

func plainWords(values []any) bool {
	for _, v := range values {
		text, ok := v.(string)
		if !ok || text == "" || strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+,-") != "" {
			return false
		}
	}
	return true
}

// shellQuotes tracks which shell quotes are open.
type shellQuotes struct {
	quote   byte // the open quote: ' or ", 0 for none
	escaped bool
}

func (q *shellQuotes) read(text string) {
	for i := range len(text) {
		switch c := text[i]; {
		case q.escaped:
			q.escaped = false
		case c == '\\' && q.quote != '\'':
			q.escaped = true
		case q.quote == 0 && (c == '\'' || c == '"'):
			q.quote = c
		case c == q.quote:
			q.quote = 0
		}
	}
}
