package shell

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// isNumber reports whether a word may be a number in bash syntax.
func isNumber(s string) bool {
	return s != "" && isDigit(s[0]) && strings.Trim(s, "0123456789abcdefABCDEFxX#") == ""
}

// isName reports whether a word is the name of a variable.
func isName(s string) bool {
	for i := range len(s) {
		if !isWord(s[i]) {
			return false
		}
	}
	return s != "" && !isDigit(s[0])
}

// isPlain reports whether a word is a lower-case variable name. Shells do not set such variables themselves.
func isPlain(s string) bool { return isName(s) && s[0] != '_' && strings.ToLower(s) == s }

// taint records that a variable may contain any text. Tainted variables must not be used in arithmetic, because the
// shell evaluates their text.
func (k *checker) taint(name string) { k.texts[name] = true }

// taintNode taints the variables to which a node of a script may assign text.
func (k *checker) taintNode(node syntax.Node) {
	switch n := node.(type) {
	case *syntax.Assign:
		k.taintAssign(n)
	case *syntax.WordIter:
		if slices.ContainsFunc(n.Items, func(w *syntax.Word) bool { return !isNumber(w.Lit()) }) || len(n.Items) == 0 {
			k.taint(n.Name.Value)
		}
	case *syntax.ParamExp:
		if n.Exp != nil && n.Param != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
			k.taint(n.Param.Value)
		}
	case *syntax.CoprocClause:
		if n.Name != nil {
			k.taint(n.Name.Lit())
			k.variable(n.Name.Lit())
		}
	case *syntax.CallExpr:
		k.taintCall(k.args(n.Args))
	}
}

func (k *checker) taintAssign(a *syntax.Assign) {
	switch {
	case a.Name == nil:
		name, _, _ := strings.Cut(k.arg(a.Value).text, "=")
		k.taint(name)
	case a.Naked:
	case a.Index != nil || a.Array != nil || a.Value == nil || !numeric(a.Value):
		k.taint(a.Name.Value)
	}
}

// taintCall taints the variables that a call of a builtin may set: any of its words, and any end of its options, as in
// read -aNAME.
func (k *checker) taintCall(args []arg) {
	if len(args) == 0 || !slices.Contains([]string{"read", "mapfile", "readarray", "getopts", "printf", "wait"}, args[0].text) {
		return
	}
	if args[0].text == "printf" && (len(args) < 2 || !args[1].option()) {
		return
	}
	for _, a := range args[1:] {
		k.taint(a.text)
		for i := 1; a.option() && i < len(a.text); i++ {
			k.taint(a.text[i:])
		}
	}
}

// numeric reports whether an assigned word is certainly a number.
func numeric(w *syntax.Word) bool {
	if len(w.Parts) == 1 {
		if _, ok := w.Parts[0].(*syntax.ArithmExp); ok {
			return true
		}
	}
	return isNumber(w.Lit())
}

// number reports whether a variable certainly contains a number, because no text is assigned to it. It returns false in
// nested scripts, which may inherit variables from the outer script.
func (k *checker) number(name string) bool {
	switch name {
	case "#", "?", "$", "!", "RANDOM", "SECONDS", "LINENO":
		return true
	}
	return isPlain(name) && !k.texts[name] && k.depth == 1
}

// arithmetic checks an arithmetic expression: all its operands must be numbers.
func (k *checker) arithmetic(x syntax.ArithmExpr) {
	switch n := x.(type) {
	case nil:
	case *syntax.BinaryArithm:
		k.arithmetic(n.X)
		k.arithmetic(n.Y)
	case *syntax.UnaryArithm:
		k.arithmetic(n.X)
	case *syntax.ParenArithm:
		k.arithmetic(n.X)
	case *syntax.Word:
		if !k.isNumeric(n) {
			k.destructive("arithmetic evaluates a text that is not known to be a number")
		}
	default:
		k.destructive("arithmetic of an unknown kind")
	}
}

// isNumeric reports whether an operand of an expression is a number, or a variable that certainly contains a number.
func (k *checker) isNumeric(w *syntax.Word) bool {
	if w == nil {
		return true
	}
	if name := w.Lit(); name != "" {
		k.variable(name)
		return isNumber(name) || k.number(name)
	}
	return len(w.Parts) == 1 && k.isNumericPart(w.Parts[0])
}

func (k *checker) isNumericPart(part syntax.WordPart) bool {
	switch p := part.(type) {
	case *syntax.Lit:
		return isNumber(p.Value)
	case *syntax.ArithmExp:
		return true
	case *syntax.DblQuoted:
		return len(p.Parts) == 1 && k.isNumericPart(p.Parts[0])
	case *syntax.ParamExp:
		if p.Param == nil || p.Excl || p.Exp != nil || p.Repl != nil || p.Slice != nil {
			return false
		}
		return p.Length || k.number(p.Param.Value)
	}
	return false
}

// checkEvaluated checks a node if the shell evaluates parts of it as arithmetic.
func (k *checker) checkEvaluated(node syntax.Node) {
	switch n := node.(type) {
	case *syntax.ArithmExp:
		k.arithmetic(n.X)
	case *syntax.ArithmCmd:
		k.arithmetic(n.X)
	case *syntax.LetClause:
		for _, x := range n.Exprs {
			k.arithmetic(x)
		}
	case *syntax.CStyleLoop:
		k.arithmetic(n.Init)
		k.arithmetic(n.Cond)
		k.arithmetic(n.Post)
	case *syntax.ParamExp:
		k.expansion(n)
	case *syntax.Assign:
		k.index(n.Index)
	case *syntax.UnaryTest:
		if w, ok := n.X.(*syntax.Word); ok && (n.Op == syntax.TsVarSet || n.Op == syntax.TsRefVar) && !isName(w.Lit()) {
			k.destructive("-v evaluates the name of a variable")
		}
	case *syntax.BinaryTest:
		if n.Op >= syntax.TsEql && n.Op <= syntax.TsGtr {
			for _, side := range []syntax.TestExpr{n.X, n.Y} {
				if w, ok := side.(*syntax.Word); !ok || !k.isNumeric(w) {
					k.destructive("a comparison evaluates a text that is not known to be a number")
				}
			}
		}
	}
}

// expansion checks a parameter expansion.
func (k *checker) expansion(n *syntax.ParamExp) {
	k.index(n.Index)
	if n.Slice != nil {
		k.arithmetic(n.Slice.Offset)
		k.arithmetic(n.Slice.Length)
	}
	if n.Excl && n.Names == 0 && !allElements(n.Index) {
		k.destructive("${!…} reads a variable whose name is computed")
	}
	if n.Exp != nil && n.Param != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
		k.variable(n.Param.Value)
	}
}

// index checks an array index.
func (k *checker) index(x syntax.ArithmExpr) {
	if x != nil && !allElements(x) {
		k.arithmetic(x)
	}
}

// allElements reports whether an array index is @ or *.
func allElements(x syntax.ArithmExpr) bool {
	w, ok := x.(*syntax.Word)
	return ok && (w.Lit() == "@" || w.Lit() == "*")
}

// checkTest checks the words of test. The word after -v is evaluated, so it must be a name. A computed word may be -v.
func checkTest(k *checker, c call) {
	for i, a := range c.args {
		switch {
		case !a.fixed && !a.one && !a.number:
			k.destructive("an unquoted argument of " + c.name + " is computed at run time")
		case (a.text == "-v" || a.text == "-R") && i+1 < len(c.args) && !isName(c.args[i+1].text),
			i == 0 && !a.fixed && len(c.args) > 1 && !c.args[1].fixed:
			k.destructive("-v of " + c.name + " evaluates the name of a variable")
		}
	}
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

func isWord(c byte) bool {
	return isDigit(c) || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || c == '_'
}
