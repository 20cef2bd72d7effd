package shell

import (
	"path"
	"slices"
	"strings"
)

// call is one simple command.
type call struct {
	name string
	args []arg
	// fed is true when its input comes from a pipe, a file or a here-document.
	fed bool
}

// check checks the arguments of a call. It calls k.destructive or k.interactive if the call is not harmless.
type check func(k *checker, c call)

// call checks a simple command. pos is its position in the script.
func (k *checker) call(words []arg, fed bool, pos uint) {
	first := words[0]
	if !first.fixed || first.text != "[" && strings.ContainsAny(first.text, "*?[{") {
		k.destructive("the name of a program is computed at run time")
		return
	}
	if at, ok := k.functions[first.text]; ok && at < pos {
		return // its body is checked where it is declared
	}
	c := call{name: Program(first.text), args: words[1:], fed: fed}
	if k.isHelpCall(c) || k.reads(c) || k.asksPerson(c) {
		return
	}
	if test, ok := k.programs[c.name]; ok {
		test(k, c)
		return
	}
	k.destructive("the program " + first.text + " is not known to be harmless")
}

// isHelpCall reports whether a call runs a known program with --help or --version as its only argument. An unknown
// program, or a program named by a path, might ignore them.
func (k *checker) isHelpCall(c call) bool {
	if len(c.args) != 1 || !c.args[0].fixed || c.args[0].text != "--help" && c.args[0].text != "--version" {
		return false
	}
	return k.knows(c.name)
}

// knows reports whether a name is a program or shell builtin in the tables.
func (k *checker) knows(name string) bool {
	if _, known := k.programs[name]; known || forms(name) != "" {
		return true
	}
	return slices.Contains(strings.Fields(knownPrograms), name)
}

// knownPrograms are further programs with the usual meaning of --help and --version.
const knownPrograms = `rm rmdir ln dd install chown chgrp link unlink truncate shred fallocate mkfifo mknod split csplit rename
	nano vim vi nvim emacs view ed code micro top htop watch screen tmux info sudo su gdb strace ltrace
	patch cpio make ninja ctest meson bazel gradle mvn ant rake just tsc eslint prettier black ruff mypy flake8 isort tox nox
	deno bun npx pipx virtualenv pipenv hatch lua luajit ghc stack cabal swift dotnet erl elixir mix julia Rscript R
	scp sftp nc socat telnet ping dig nslookup host traceroute nmap tcpdump iptables ip6tables nft ufw ethtool
	useradd usermod userdel passwd setfacl chattr mkfs fsck fdisk parted losetup umount
	apt-key add-apt-repository update-alternatives logger script nproc flock parallel entr expect setsid chrt taskset ionice
	chronic sponge moreutils getopt wall sync unshare nsenter chroot runuser ansible ansible-playbook vagrant packer vault consul nomad
	minikube kind k9s skopeo buildah mongosh mongo pg_dump pg_restore createdb dropdb redis-server nginx apache2 httpd
	git-lfs hg svn bzr fossil tig lazygit pre-commit delta bat eza exa zoxide fzf tldr cmatrix hyperfine
	protoc buf sqlc golangci-lint staticcheck gopls dlv goreleaser clippy-driver clang-format clang-tidy cppcheck valgrind perf
	ffmpeg ffprobe convert magick identify pandoc pdftotext exiftool`

// Program returns the name of a program without its folder if that is one of the system's folders. It returns any other
// path unchanged.
func Program(name string) string {
	dir, base := path.Split(name)
	switch dir {
	case "/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/usr/local/go/bin/":
		return base
	}
	return name
}

// allowList returns the programs that may be harmless, with the checks of their arguments.
func allowList() map[string]check {
	table := map[string]check{}
	add := func(test check, names string) {
		for name := range strings.FieldsSeq(names) {
			table[name] = test
		}
	}
	add(harmless, `echo cat tac nl head tail wc cut tr paste comm join fold expand unexpand rev od hexdump strings
		cksum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum sum base64 base32 seq true false :
		sleep pwd basename dirname realpath readlink stat ls dir vdir du df free uptime uname whoami id groups arch nproc
		which type expr factor numfmt tsort pr fmt column grep egrep fgrep zgrep zcat bzcat xzcat diff cmp
		jq shift return exit break continue umask printenv getconf locale ps cd dircolors pathchk tty
		sum logname lscpu lsblk times`)
	add(checkTest, "test [")
	add(harmless, `help bc col colrm who users last lastlog w cal ncal pidof pstree vmstat iostat mpstat lsattr namei getfacl lsmod factor
		whereis c++filt addr2line yes getopt`)
	add(denyOptions("", "diff-program"), "diff3")
	add(allOf(denyOptions("p", "tmpdir"), writesAll), "mktemp")
	add(setsClock, "date")
	add(denyOptions("oT", "output", "compress-program", "temporary-directory"), "sort")
	add(denyOptions("o", "output"), "shuf")
	add(denyOptions("oR", "output"), "tree")
	add(denyOptions("C", "compile"), "file")
	add(denyOptions("", "pre", "pre-glob", "hostname-bin", "search-zip"), "rg")
	add(denyOptions("is", "inplace", "in-place", "split-exp"), "yq")
	add(assigns, "read mapfile readarray getopts printf unset wait")
	add(allOf(allowWords("-euxvo", "pipefail", "errexit", "nounset", "xtrace"), assigns), "set")
	add(noArguments, "hostname jobs alias hash")
	add(uniq, "uniq")
	add(allOf(denyOptions(""), writesAll), "touch mkdir tee")
	add(allOf(allowOptions("rRpvfniuHL", "recursive", "verbose", "force", "no-clobber"), copies), "cp")
	add(allOf(allowOptions("fnvui", "force", "verbose", "no-clobber"), writesAll), "mv")
	add(allOf(denyOptions("R", "recursive", "reference"), writesAll), "chmod")
	add(compressesToOutput, "gzip gunzip bzip2 bunzip2 xz unxz zstd")
	add(kill, "kill")
	add(runsEach, "fd fdfind")
	add(sqlite, "sqlite3")
	add(allOf(allowOptions("ltpZv"), requireFirst("-l", "-t", "-p", "-Z", "-v")), "unzip")
	add(sed, "sed")
	add(awk, "awk gawk mawk nawk")
	add(find, "find")
	add(xargs, "xargs")
	add(wrapper, "nohup nice ionice stdbuf timeout command builtin exec env")
	add(shell, "sh bash dash zsh ksh")
	add(evaluate, "eval")
	add(trap, "trap")
	add(git, "git")
	add(golang, "go")
	add(gofmt, "gofmt gofumpt goimports")
	add(makes, "make gmake")
	add(npm, "npm pnpm yarn")
	add(cargo, "cargo")
	add(pytest, "pytest py.test")
	add(python, "python python3")
	add(node, "node nodejs")
	add(showsVersion, "ruby perl java javac php rustc gcc cc clang cmake docker kubectl pip pip3 curl wget gh psql mysql")
	return table
}

func harmless(*checker, call) {}

func noArguments(k *checker, c call) {
	if len(c.args) > 0 {
		k.destructive(c.name + " may change something when it has arguments")
	}
}

// allOf returns a check that applies several checks.
func allOf(checks ...check) check {
	return func(k *checker, c call) {
		for _, test := range checks {
			test(k, c)
		}
	}
}

// denyOptions returns a check that rejects some options: the letters in short and the long names, also abbreviated. It
// rejects computed words that may be an option.
func denyOptions(short string, long ...string) check {
	return func(k *checker, c call) {
		for _, a := range c.args {
			switch {
			case a.fixed && a.text == "--":
				return
			case !a.fixed && !a.safe:
				k.destructive("an argument of " + c.name + " is computed at run time and might be an option")
			case !a.option():
			case strings.HasPrefix(a.text, "--"):
				name, _, _ := strings.Cut(a.text[2:], "=")
				if slices.ContainsFunc(long, func(l string) bool { return strings.HasPrefix(l, name) }) {
					k.destructive("the option " + a.text + " of " + c.name)
				}
			case strings.ContainsAny(a.text[1:], short):
				k.destructive("the option " + a.text + " of " + c.name)
			}
		}
	}
}

// allowWords returns a check that accepts only options of these letters, and these words.
func allowWords(letters string, words ...string) check {
	return func(k *checker, c call) {
		for _, a := range c.args {
			if a.fixed && a.text == "--" {
				return
			}
			if !a.fixed || a.option() && strings.Trim(a.text, letters) != "" || !a.option() && !slices.Contains(words, a.text) && a.text != "+e" && a.text != "+x" {
				k.destructive("the argument " + a.shown() + " of " + c.name)
			}
		}
	}
}

// requireFirst returns a check that accepts a call only when its first argument is one of the words.
func requireFirst(words ...string) check {
	return func(k *checker, c call) {
		if len(c.args) == 0 || !c.args[0].fixed || !slices.Contains(words, c.args[0].text) {
			k.destructive(c.name + " is not known to be harmless")
		}
	}
}

// assigns checks a builtin that sets variables.
func assigns(k *checker, c call) {
	if c.name == "printf" && len(c.args) > 0 && (!c.args[0].fixed && !c.args[0].safe ||
		strings.HasPrefix(c.args[0].text, "-v") && (len(c.args) < 2 || !isName(c.args[1].text) || c.args[0].text != "-v")) {
		k.destructive("printf may set a variable")
	}
	for _, a := range c.args {
		name, _, _ := strings.Cut(a.text, "=")
		k.variable(name)
		if _, function := k.functions[name]; function && c.name == "unset" {
			k.destructive("it removes the function " + name)
		}
		switch {
		case strings.ContainsAny(a.text, "`") || strings.Contains(a.text, "$("):
			k.destructive("an argument of " + c.name + " holds the text of a command")
		case !a.fixed && c.name != "printf":
			k.destructive("an argument of " + c.name + " is computed at run time")
		case a.option() && (c.name == "unset" && a.text != "-v" || c.name == "mapfile" && strings.ContainsAny(a.text, "Cc") || c.name == "readarray" && strings.ContainsAny(a.text, "Cc")):
			k.destructive("the option " + a.text + " of " + c.name)
		}
	}
}

// setsClock rejects date with -s or with only digits.
func setsClock(k *checker, c call) {
	for i, a := range c.args {
		value := i > 0 && (c.args[i-1].text == "-d" || c.args[i-1].text == "--date")
		if strings.HasPrefix(a.text, "-s") || strings.HasPrefix(a.text, "--s") || !value && strings.Trim(a.text, "0123456789.") == "" {
			k.destructive("date may set the clock")
		}
	}
}

// operands returns the words that are not options, and all words after --.
func (c call) operands() []arg {
	var found []arg
	for i, a := range c.args {
		if a.fixed && a.text == "--" {
			return append(found, c.args[i+1:]...)
		}
		if !a.option() {
			found = append(found, a)
		}
	}
	return found
}

// allowOptions returns a check that accepts only options of these letters and long names. It rejects computed words
// that may be an option.
func allowOptions(short string, long ...string) check {
	return func(k *checker, c call) {
		for _, a := range c.args {
			switch {
			case a.fixed && a.text == "--":
				return
			case !a.fixed && !a.safe:
				k.destructive("an argument of " + c.name + " is computed at run time and might be an option")
			case a.option() && strings.Trim(a.text[1:], short) != "" && !slices.Contains(long, strings.TrimPrefix(a.text, "--")):
				k.destructive("the option " + a.text + " of " + c.name)
			}
		}
	}
}

// showsVersion accepts a program that only prints its version.
func showsVersion(k *checker, c call) {
	if len(c.args) != 1 || !slices.Contains([]string{"--version", "-V", "version", "--help"}, c.args[0].text) {
		k.destructive(c.name + " is not known to be harmless")
	}
}

// uniq checks the options of uniq and its second operand, a file that it writes. The value of an option must be a
// number, joined to the option or in the next word.
func uniq(k *checker, c call) {
	allowOptions("cdiuzDfsw0123456789", "count", "repeated", "unique", "ignore-case", "zero-terminated")(k, c)
	rest := c
	rest.args = nil
	for i, a := range c.args {
		if i == 0 || !slices.Contains([]string{"-f", "-s", "-w"}, c.args[i-1].text) {
			rest.args = append(rest.args, a)
		} else if !isNumber(a.text) {
			k.destructive("the option " + c.args[i-1].text + " of uniq has no number")
		}
	}
	for i, a := range rest.operands() {
		if i == 1 {
			k.writes(a)
		}
	}
}

// writesAll checks that all operands are paths in the workspace.
func writesAll(k *checker, c call) {
	for _, a := range c.operands() {
		k.writes(a)
	}
}

// copies checks that the last operand is in the workspace. Copied links could lead out of it, so a copied directory
// must be in the workspace, too.
func copies(k *checker, c call) {
	operands := c.operands()
	recursive := slices.ContainsFunc(c.args, func(a arg) bool {
		return a.option() && (strings.HasPrefix(a.text, "--rec") || !strings.HasPrefix(a.text, "--") && strings.ContainsAny(a.text, "rR"))
	})
	for i, a := range operands {
		if i == len(operands)-1 || recursive || startsCode(a.text) {
			k.writes(a)
		}
	}
}

// compressesToOutput accepts a call of a compressor that does not replace its files.
func compressesToOutput(k *checker, c call) {
	allowOptions("cdfklntqv123456789", "stdout", "to-stdout", "list", "test", "decompress")(k, c)
	for _, a := range c.args {
		if a.text == "--" {
			break
		}
		if a.option() && a.fixed && (slices.Contains([]string{"--stdout", "--to-stdout", "--list", "--test"}, a.text) ||
			!strings.HasPrefix(a.text, "--") && strings.ContainsAny(a.text, "clt")) {
			return
		}
	}
	if c.fed && len(c.args) == 0 {
		return
	}
	k.destructive(c.name + " replaces its files")
}
