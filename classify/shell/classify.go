// Package shell analyses shell commands without running them. It determines whether a command is destructive or
// interactive, which files a list of arguments names, which commands a script runs, and whether a script only calls
// git. It uses only the text of a command. Where the text is not sufficient, it assumes the most dangerous possibility.
package shell

import (
	"path/filepath"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Class is the classification of a shell command.
type Class struct {
	// Destructive is true for a command that needs an approval: every command that is not known to be harmless.
	Destructive bool
	// Interactive is true for a command that waits for a person. Such commands are refused.
	Interactive bool
	// Reason explains the class; "" for a harmless command.
	Reason string
}

// Context describes the environment of a command.
type Context struct {
	// Dir is the absolute working directory.
	Dir string
	// Workspace is the absolute path of the task's workspace, in which a command may write.
	Workspace string
	// Places are further absolute paths. A command may write at and below them.
	Places []string
	// Env are the names of the environment variables that the caller sets, with unknown values.
	Env []string
}

// writes reports whether a command may write at a clean absolute path.
func (c Context) writes(path string) bool {
	return Within(path, c.Workspace) || slices.ContainsFunc(c.Places, func(place string) bool { return Within(path, place) })
}

// Classify returns the class of a bash command: whether it is destructive or interactive (S0-083, S0-084, A-29, A-30).
//
// It parses the command and checks every part: lists, pipes, substitutions, functions, loops and wrappers such as env,
// xargs or sh -c. A part is harmless only if its program is on a list, its arguments satisfy the program's rules and it
// writes only inside the workspace. Arithmetic is harmless only if it evaluates numbers, and variables to which no text
// is assigned. A part that cannot be parsed or is computed at run time is destructive. Build and test runners (go,
// make, npm test, pytest, cargo …) run the project's own code; they are deliberately not classified as destructive.
func Classify(command string, c Context) Class {
	k := &checker{ctx: c, programs: allowList(), runs: new(int)}
	k.script(command)
	return k.class
}

// nesting bounds how deep scripts may be nested (sh -c, eval, trap).
const nesting = 8

// maxRuns bounds how many commands of wrappers are checked. Nested wrappers could start many commands.
const maxRuns = 1000

// checker classifies one command.
type checker struct {
	ctx      Context
	programs map[string]check
	class    Class
	// moved is true when the script changes its directory. lost is true when the new directory is not known to be below
	// Dir or in a place where the command may write.
	moved, lost bool
	// functions maps the names of top-level functions to the positions of their declarations.
	functions map[string]uint
	// fed contains the calls with an input from a pipe, a file or a here-document.
	fed map[*syntax.CallExpr]bool
	// texts contains the variables that may contain any text.
	texts map[string]bool
	// within is true for the script of an eval or trap, which may run at any time in the enclosing shell.
	within bool
	depth  int
	// runs counts the commands of wrappers that were checked, in the whole command.
	runs *int
}

// destructive marks the command as destructive. The first reason counts.
func (k *checker) destructive(reason string) {
	if k.class.Reason == "" {
		k.class.Reason = reason
	}
	k.class.Destructive = true
}

// interactive marks the command as interactive. Its first reason replaces that of a destructive command.
func (k *checker) interactive(reason string) {
	if !k.class.Interactive {
		k.class.Reason = reason
	}
	k.class.Interactive = true
}

// script classifies the text of a script.
func (k *checker) script(text string) {
	if k.depth++; k.depth > nesting {
		k.destructive("scripts are nested too deeply")
		return
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		k.destructive("the command cannot be parsed")
		return
	}
	inner := &checker{
		ctx: k.ctx, programs: k.programs, class: k.class, moved: k.moved, lost: k.lost, depth: k.depth, runs: k.runs,
		functions: topFunctions(file), fed: map[*syntax.CallExpr]bool{}, texts: map[string]bool{}, within: k.within,
	}
	syntax.Walk(file, inner.survey)
	if inner.within && len(inner.texts) > 0 {
		inner.destructive("a script inside of the script sets a variable")
	}
	for _, name := range k.ctx.Env {
		inner.variable(name)
		inner.texts[name] = true
	}
	syntax.Walk(file, inner.visit)
	k.depth--
	// A script that runs in this shell changes its directory.
	k.class, k.moved, k.lost = inner.class, inner.moved, inner.lost
}

// topFunctions returns the functions that are declared at the top level of a script, with their positions.
func topFunctions(file *syntax.File) map[string]uint {
	found := map[string]uint{}
	for _, stmt := range file.Stmts {
		if decl, ok := stmt.Cmd.(*syntax.FuncDecl); ok && !stmt.Background && len(stmt.Redirs) == 0 && decl.Name != nil {
			found[decl.Name.Value] = decl.Pos().Offset()
		}
	}
	return found
}

// survey is the first pass over a script: it collects the information that visit needs.
func (k *checker) survey(node syntax.Node) bool {
	k.taintNode(node)
	switch n := node.(type) {
	case *syntax.BinaryCmd:
		if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
			k.feed(n.Y)
		}
	case *syntax.Stmt:
		for _, r := range n.Redirs {
			if r.Op == syntax.RdrIn || providesInput(r) {
				k.feed(n)
			}
		}
	case *syntax.CallExpr:
		if args := k.args(n.Args); len(args) > 0 && (args[0].text == "cd" || args[0].text == "pushd" || args[0].text == "popd") {
			k.changesDir(args[1:])
		}
	}
	return true
}

// feed records that the calls in stmt have an input.
func (k *checker) feed(stmt *syntax.Stmt) {
	syntax.Walk(stmt, func(node syntax.Node) bool {
		if call, ok := node.(*syntax.CallExpr); ok {
			k.fed[call] = true
		}
		return true
	})
}

// changesDir records a cd. After a cd to a directory below the working directory, relative paths without .. are still
// inside.
func (k *checker) changesDir(args []arg) {
	k.moved = true
	if k.within {
		k.destructive("a script inside of the script changes the directory")
	}
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	if len(args) != 1 || !args[0].fixed || strings.ContainsAny(args[0].text[:min(1, len(args[0].text))], "-+") || strings.HasPrefix(args[0].text, "~") {
		k.lost = true
		return
	}
	path := args[0].text
	switch {
	case filepath.IsAbs(path):
		k.lost = k.lost || !k.ctx.writes(filepath.Clean(path))
	case hasDotDot(path):
		k.lost = true
	}
	if Metadata(path) {
		k.destructive("it works in the metadata of a repository")
	}
}

func hasDotDot(path string) bool { return strings.Contains("/"+path+"/", "/../") }

// inside reports whether a path is certainly in the workspace and may be written.
func (k *checker) inside(a arg) bool {
	if !a.fixed || strings.HasPrefix(a.text, "~") || a.text == "" {
		return false
	}
	path := filepath.Clean(a.text)
	if !filepath.IsAbs(path) {
		if k.lost || k.moved && hasDotDot(a.text) {
			return false
		}
		path = filepath.Join(k.ctx.Dir, path)
	}
	return k.ctx.writes(path) && !Metadata(path) && !startsCode(path)
}

// startsCode reports whether the name of a file makes programs execute it or read it as configuration.
func startsCode(path string) bool {
	switch base := strings.ToLower(filepath.Base(path)); base {
	case ".gitconfig", ".profile", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".netrc", ".npmrc", ".pypirc",
		".inputrc", ".lesskey", ".lesshst", ".less", ".sqliterc", ".manpath", ".rpmrc", ".rpmmacros", ".yarnrc", ".condarc", ".terraformrc", ".toprc", ".curlrc", ".wgetrc", "config", "head", "commondir", "gitdir", "makefile", "gnumakefile":
		return true
	}
	path = strings.ToLower(path) + "/"
	return strings.Contains(path, "/.ssh/") || strings.Contains(path, "/.config/") || strings.Contains(path, "/.docker/") ||
		strings.Contains(path, "/.kube/") || strings.Contains(path, "/.aws/") || strings.Contains(path, "/.gnupg/")
}

// writes checks a path that the command would write: it must be in the workspace.
func (k *checker) writes(a arg) {
	if !k.inside(a) {
		k.destructive("it may write outside the task's workspace: " + a.shown())
	}
}

// commandText rejects a literal that contains an index with a command substitution. Arithmetic, test and printf -v
// would run the command when they evaluate the index.
func (k *checker) commandText(literal string) {
	if literal = strings.ReplaceAll(literal, `\`, ""); strings.Contains(literal, "[$(") || strings.Contains(literal, "[`") {
		k.destructive("a literal holds the text of a command")
	}
}

// visit is the second pass over a script: it checks a node.
func (k *checker) visit(node syntax.Node) bool {
	k.checkEvaluated(node)
	switch n := node.(type) {
	case *syntax.CallExpr:
		if len(n.Args) > 0 {
			k.call(k.args(n.Args), k.fed[n], n.Pos().Offset())
		}
	case *syntax.Redirect:
		k.redirect(n)
	case *syntax.Assign:
		k.assign(n)
	case *syntax.SglQuoted:
		k.commandText(n.Value)
	case *syntax.Lit:
		k.commandText(n.Value)
		if strings.Contains(n.Value, "/dev/tcp") || strings.Contains(n.Value, "/dev/udp") {
			k.destructive("it opens a network connection")
		}
	case *syntax.WordIter:
		k.variable(n.Name.Value)
	case *syntax.ParamExp:
		if n.Exp != nil && n.Exp.Op == syntax.OtherParamOps && n.Exp.Word != nil && n.Exp.Word.Lit() == "P" {
			k.destructive("${…@P} runs what a variable holds")
		}
	case *syntax.FuncDecl:
		if n.Name != nil {
			k.declares(n.Name.Value)
		}
		if n.Name == nil || k.functions[n.Name.Value] != n.Pos().Offset() {
			k.destructive("a function is declared inside something else")
		}
	}
	return true
}

// declares checks that a function does not have the name of another command.
func (k *checker) declares(name string) {
	if k.knows(name) || k.within || !isName(name) || slices.Contains(strings.Fields("cd source alias unalias enable hash shopt pushd popd kill bind complete compgen fc"), name) {
		k.destructive("the function " + name + " may stand for another command")
	}
}

// providesInput reports whether a redirection provides input that is not a file.
func providesInput(r *syntax.Redirect) bool {
	return r.Op == syntax.Hdoc || r.Op == syntax.DashHdoc || r.Op == syntax.WordHdoc || r.Op == syntax.DplIn
}

// redirect checks a redirection.
func (k *checker) redirect(r *syntax.Redirect) {
	if r.N != nil && strings.HasPrefix(r.N.Value, "{") {
		k.destructive("a redirection sets a variable")
	}
	if r.Op == syntax.RdrIn {
		if target := k.arg(r.Word); strings.HasPrefix(target.text, "/dev/tcp/") || strings.HasPrefix(target.text, "/dev/udp/") {
			k.destructive("it opens a network connection")
		}
	}
	if r.Op == syntax.RdrIn || providesInput(r) {
		return
	}
	target := k.arg(r.Word)
	switch target.text {
	case "/dev/null", "/dev/stdout", "/dev/stderr", "/dev/fd/1", "/dev/fd/2":
		return
	}
	if r.Op == syntax.DplOut && target.fixed && strings.Trim(target.text, "0123456789-") == "" && target.text != "" {
		return
	}
	k.writes(target)
}

// assign checks an assignment or declaration.
func (k *checker) assign(a *syntax.Assign) {
	if k.within && !a.Naked {
		k.destructive("a script inside of the script sets a variable")
	}
	if a.Name != nil {
		k.variable(a.Name.Value)
	} else if v := k.arg(a.Value); !v.fixed || v.option() && strings.ContainsAny(v.text, "ni") {
		k.destructive("it declares a variable in a way that can stand for another one")
	} else if name, _, ok := strings.Cut(v.text, "="); ok {
		k.variable(name)
	}
	if a.Value != nil {
		// Arithmetic and some expansions run a command substitution in the text of a variable.
		if v := k.arg(a.Value); strings.Contains(v.text, "$(") || strings.Contains(v.text, "`") {
			k.destructive("a variable holds the text of a command")
		}
	}
}

// variable checks the name of a variable that the command sets.
func (k *checker) variable(name string) {
	if SteersPrograms(name) {
		k.destructive("it changes the variable " + name)
	}
}

// SteersPrograms reports whether an environment variable can make harmless programs do something else.
func SteersPrograms(name string) bool {
	switch name {
	case "PATH", "ENV", "IFS", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "CDPATH", "HOME", "TMPDIR", "EDITOR", "VISUAL", "PAGER",
		"GOFLAGS", "GOPROXY", "GOTOOLCHAIN", "GOROOT", "GOPATH", "GOBIN", "GOENV", "CC", "CXX", "SHELL", "MAKEFLAGS", "TAR_OPTIONS",
		"LESSOPEN", "MANPAGER", "RIPGREP_CONFIG_PATH", "MAKE", "MAKEFILES", "GNUMAKEFLAGS", "MFLAGS", "PWD", "OLDPWD", "GLOBIGNORE",
		"XZ_OPT", "XZ_DEFAULTS", "GZIP", "GOCACHEPROG", "GOWORK", "GOAUTH", "GOEXPERIMENT", "GCCGO", "PKG_CONFIG", "AR", "FC", "TMP", "TEMP",
		"KUBECONFIG", "GCONV_PATH", "LOCPATH", "NLSPATH", "TERMINFO", "TERMINFO_DIRS", "APT_CONFIG", "WGETRC", "CURL_HOME", "GNUPGHOME", "UNZIP", "UNZIPOPT",
		"ZIPOPT", "ZIPINFO", "BROWSER", "RSH", "TAPE", "MAGIC", "MORE", "FCEDIT", "SUDO_ASKPASS", "MANOPT", "MANPATH", "MANROFFOPT", "TROFF", "HOSTALIASES":
		return true
	}
	for _, prefix := range []string{
		"LD_", "DYLD_", "GIT_", "BASH", "XDG_", "AWK", "GAWK", "ZSTD_", "CGO_CFLAGS", "CGO_LDFLAGS", "CGO_CPPFLAGS", "CGO_CXXFLAGS", "NPM_", "npm_", "NODE_", "PYTHON", "PERL", "RUBY", "JAVA_", "CARGO", "RUST",
		"DOCKER_", "COMPOSE_", "CONTAINER_", "KUBECTL_", "HELM_", "AWS_", "GH_", "GITHUB_", "GLAB_", "CLOUDSDK_", "TF_", "TOFU_", "PIP_", "UV_", "POETRY_", "CONDA_", "MAMBA_",
		"YARN_", "PNPM_", "COREPACK_", "HOMEBREW_", "DPKG_", "APT_", "RPM_", "SYSTEMD_", "LESS", "GROFF", "SSH_", "RSYNC_", "OPENSSL_", "SSL_", "PHP", "LUA_", "SQLITE_", "PG", "MYSQL", "DENO_", "BUN_",
	} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}
