package shell

import (
	"slices"
	"strings"
)

// parseFind parses the options, starting points and expression of find. The tables of primary omit actions that write,
// run programs or read lists of files (S4-059).
func parseFind(a *argv) error {
	i := 0
	for ; i < len(a.args) && slices.Contains([]string{"-H", "-L", "-P", "-O0", "-O1", "-O2", "-O3"}, a.args[i]); i++ {
		a.follow = a.follow || a.args[i] == "-L"
	}
	for ; i < len(a.args) && !beginsExpression(a.args[i]); i++ {
		a.files = append(a.files, Operand{Arg: i, Path: a.args[i]})
	}
	a.addWorkingDir()
	for ; i < len(a.args); i++ {
		kind, known := primary(a.args[i])
		switch {
		case !known:
			return refuse(i, "%q of find is not permitted: it is unknown, writes or runs programs", a.args[i]).
				WithHint("permitted are tests such as -name, -type, -size and -newer, and the actions -print, -print0, -printf, -ls, -prune and -quit")
		case kind == 0:
			continue
		case kind == '!':
			a.follow = true
			continue
		case i+1 >= len(a.args):
			return refuse(i, "%q of find needs a value", a.args[i])
		}
		if i++; kind == '@' {
			a.files = append(a.files, Operand{Arg: i, Path: a.args[i]})
		}
	}
	return nil
}

// beginsExpression reports whether an argument begins the expression of find.
func beginsExpression(arg string) bool {
	return len(arg) > 1 && arg[0] == '-' || arg == "(" || arg == "!"
}

// primary returns the kind of value of a word in an expression: a suffix as in grammar.long, or 0 for none.
func primary(word string) (kind byte, known bool) {
	const (
		flags = ` ( ) ! , -a -and -o -or -not -depth -d -daystart -empty -executable -false -true -ls -mount -nogroup -nouser
			-noignore_readdir_race -ignore_readdir_race -noleaf -nowarn -warn -print -print0 -prune -quit -readable -writable
			-xdev -help --help -version --version `
		texts = ` -amin -atime -cmin -ctime -mmin -mtime -gid -group -uid -user -inum -iname -name -ilname -lname -ipath -path
			-iwholename -wholename -iregex -regex -regextype -links -maxdepth -mindepth -perm -size -type -xtype -used -fstype
			-printf -newerat -newerct -newermt -newerBt `
		files = ` -anewer -cnewer -newer -samefile -neweraa -newerac -neweram -neweraB -newerca -newercc -newercm -newercB
			-newerma -newermc -newermm -newermB -newerBa -newerBc -newerBm -newerBB `
	)
	switch {
	case word == "-follow":
		return '!', true
	case slices.Contains(strings.Fields(flags), word):
		return 0, true
	case slices.Contains(strings.Fields(texts), word):
		return ':', true
	case slices.Contains(strings.Fields(files), word):
		return '@', true
	}
	return 0, false
}

// parseAwk parses the arguments of awk: options, the program, and then files and assignments.
func parseAwk(a *argv) error {
	i := 0
	for ; i < len(a.args) && len(a.args[i]) > 1 && a.args[i][0] == '-'; i++ {
		arg := a.args[i]
		switch {
		case arg == "--version" || arg == "--help":
			continue
		case arg == "--":
		case arg == "-F" || arg == "-v":
			if i++; i >= len(a.args) {
				return refuse(i-1, "the option %s of awk needs a value", arg)
			}
			continue
		case strings.HasPrefix(arg, "-F") || strings.HasPrefix(arg, "-v"):
			continue
		default:
			return refuse(i, "the option %s of awk is not permitted", arg).WithHint("permitted are -F and -v")
		}
		i++
		break
	}
	if i >= len(a.args) {
		return nil
	}
	if err := a.script(i, a.args[i]); err != nil {
		return err
	}
	for i++; i < len(a.args); i++ {
		if name, _, assigns := strings.Cut(a.args[i], "="); !assigns || !isName(name) {
			a.file(i, a.args[i])
		}
	}
	return nil
}

// awkReads reports whether an awk program only prints and reads no files except its operands.
func awkReads(program string) bool {
	code, plain := awkCode(program)
	if !plain {
		code = program
	}
	for _, word := range []string{"ARGV", "ARGC", "SYMTAB", "FUNCTAB", "PROCINFO", "ENVIRON"} {
		if strings.Contains(code, word) {
			return false
		}
	}
	return awkPrints(program)
}
