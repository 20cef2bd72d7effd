package shell

import (
	"maps"
	"strings"
)

// grammars returns the grammars of the read-only commands. Options that are not in a grammar are refused. The tables
// cover the options of GNU coreutils, grep, sed, findutils and diffutils, of file 5, mawk, gawk and ripgrep 14.
func grammars() map[string]grammar {
	table := map[string]grammar{
		"grep": grepGrammar(),
		"rg":   ripgrepGrammar(),
		"sed": {
			parse: getopt, script: true, scripts: "e expression", check: printsOnly,
			flags: "nErsuz", texts: "e", numbers: "l",
			long: "quiet silent expression: line-length# regexp-extended posix null-data separate unbuffered sandbox debug",
		},
		"awk":  {parse: parseAwk, check: awkReads},
		"find": {parse: parseFind},
		"diff": diffGrammar(),
		"ls":   listGrammar(),
		"du": {
			parse: getopt, operands: filesOrHere, flags: "0abcDHhklmPsSx", follows: "L", numbers: "d", texts: "Bt", files: "X",
			long: `null all apparent-size block-size: bytes total dereference-args max-depth# human-readable inodes dereference!
				no-dereference separate-dirs si summarize threshold: time? time-style: exclude: exclude-from@ one-file-system`,
		},
		"file": {
			parse: getopt, flags: "bEhiklLnNrv0", texts: "eF",
			long: `brief exclude: exclude-quiet: keep-going list mime mime-type mime-encoding extension apple no-buffer no-pad raw
				separator: dereference no-dereference print0`,
		},
		"stat": {
			parse: getopt, flags: "Lft", texts: "c",
			long: "dereference file-system terse format: printf: cached:",
		},
	}
	maps.Copy(table, textGrammars())
	return table
}

// textGrammars returns the grammars of commands that read text by line. The grammar of tail omits the options that wait
// for more text.
func textGrammars() map[string]grammar {
	return map[string]grammar{
		"cat": {
			parse: getopt, flags: "AbeEnstTuv",
			long: "show-all number-nonblank show-ends number squeeze-blank show-tabs show-nonprinting",
		},
		"head": {parse: getopt, count: true, flags: "qvz", numbers: "cn", long: "bytes# lines# quiet silent verbose zero-terminated"},
		"tail": {parse: getopt, operands: tailFiles, count: true, flags: "qvz", numbers: "cn", long: "bytes# lines# quiet silent verbose zero-terminated"},
		"wc":   {parse: getopt, flags: "cmlLw", long: "bytes chars lines max-line-length words total:"},
		"sort": {
			parse: getopt, flags: "bdfgiMhnRrVcCmsuz", texts: "ktS",
			long: `ignore-leading-blanks dictionary-order ignore-case general-numeric-sort ignore-nonprinting month-sort
				human-numeric-sort numeric-sort random-sort random-source@ reverse sort: version-sort batch-size# check? debug
				key: merge stable buffer-size: field-separator: parallel# unique zero-terminated`,
		},
		"uniq": {
			parse: getopt, operands: oneFile, count: true, flags: "cdDiuz", numbers: "fsw",
			long: `count repeated all-repeated? skip-fields# group? ignore-case skip-chars# unique zero-terminated check-chars#`,
		},
		"cut": {
			parse: getopt, flags: "nsz", texts: "bcdf",
			long: "bytes: characters: delimiter: fields: complement only-delimited output-delimiter: zero-terminated",
		},
		"tr": {parse: getopt, operands: noFiles, flags: "cCdst", long: "complement delete squeeze-repeats truncate-set1"},
	}
}

func grepGrammar() grammar {
	return grammar{
		parse: getopt, operands: filesOrSearchHere, script: true, scripts: "e f regexp file", count: true,
		flags: "EFGPiywxvclLoqsbHhnTuUzZarI", follows: "R", texts: "eDd", numbers: "mABC", files: "f",
		long: `extended-regexp fixed-strings basic-regexp perl-regexp regexp: file@ ignore-case no-ignore-case word-regexp
			line-regexp null-data no-messages invert-match max-count# byte-offset line-number line-buffered with-filename
			no-filename label: only-matching quiet silent binary-files: text directories: devices: recursive
			dereference-recursive! include: exclude: exclude-from@ exclude-dir: files-without-match files-with-matches count
			initial-tab null after-context# before-context# context# color? colour? group-separator: no-group-separator
			binary unix-byte-offsets`,
	}
}

func ripgrepGrammar() grammar {
	return grammar{
		parse: getopt, operands: filesOrSearchHere, script: true, scripts: "e f regexp file files type-list",
		flags: "FisSwxvclnNHIqUPaupVh0o.", follows: "L", texts: "egtTrE", numbers: "ABCmMjd", files: "f",
		long: `fixed-strings ignore-case case-sensitive smart-case word-regexp line-regexp invert-match count count-matches
			files-with-matches files-without-match line-number no-line-number with-filename no-filename heading no-heading quiet
			multiline multiline-dotall pcre2 text unrestricted pretty null null-data only-matching hidden no-hidden no-ignore
			no-ignore-vcs no-ignore-parent no-ignore-dot no-ignore-global no-ignore-exclude no-ignore-files no-messages
			no-ignore-messages no-config no-unicode crlf byte-offset column no-column trim vimgrep json stats passthru
			line-buffered block-buffered files type-list follow! no-follow one-file-system auto-hybrid-regex debug
			regexp: file@ glob: iglob: type: type-not: type-add: replace: encoding: engine: color: colors: sort: sortr:
			context-separator: field-match-separator: field-context-separator: max-filesize: ignore-file@
			after-context# before-context# context# max-count# max-columns# max-columns-preview threads# max-depth# maxdepth#
			dfa-size-limit: regex-size-limit: include-zero`,
	}
}

// diffGrammar returns the grammar of diff, which by default follows the links in the directories that it compares.
func diffGrammar() grammar {
	return grammar{
		parse: getopt, operands: diffFiles, count: true,
		flags: "abBcdeEHiNnpPqrsTtuwyZ", numbers: "UCW", words: "FxSI", texts: "LD", files: "X",
		long: `brief report-identical-files context? unified? ed rcs side-by-side width# left-column suppress-common-lines
			show-c-function show-function-line% label: expand-tabs initial-tab tabsize# suppress-blank-empty recursive
			no-dereference new-file unidirectional-new-file ignore-file-name-case no-ignore-file-name-case exclude%
			exclude-from@ starting-file% from-file@ to-file@ ignore-case ignore-tab-expansion ignore-trailing-space
			ignore-space-change ignore-all-space ignore-blank-lines ignore-matching-lines% strip-trailing-cr text minimal
			horizon-lines# speed-large-files ifdef: color? palette: line-format: normal`,
	}
}

func listGrammar() grammar {
	return grammar{
		parse: getopt, operands: filesOrHere,
		flags: "aAbBcCdfFgGhHiklmnNopqQrRsStuUvxXZ1", follows: "L", numbers: "Tw", words: "I",
		long: `all almost-all author escape block-size: ignore-backups color? directory classify? file-type format:
			full-time group-directories-first no-group human-readable si dereference-command-line
			dereference-command-line-symlink-to-dir hide: hyperlink? indicator-style: inode ignore% kibibytes dereference!
			numeric-uid-gid literal hide-control-chars show-control-chars quote-name quoting-style: reverse recursive size
			sort: time: time-style: tabsize# width# context zero`,
	}
}

// filesOrHere adds the operands as files, or the working directory if there are none.
func filesOrHere(a *argv, operands []int) error {
	err := a.allFiles(operands)
	a.addWorkingDir()
	return err
}

// filesOrSearchHere is filesOrHere for grep and rg. Without operands rg always searches the working directory, grep
// only in recursive mode. Files from options do not count as operands.
func filesOrSearchHere(a *argv, operands []int) error {
	if len(operands) == 0 && (a.command == "rg" || a.used("r", "R", "recursive", "dereference-recursive", "d", "directories")) {
		a.files = append(a.files, Operand{Arg: -1, Path: "."})
	}
	return a.allFiles(operands)
}

// diffFiles checks the operands of diff.
func diffFiles(a *argv, operands []int) error {
	a.follow = !a.used("no-dereference")
	return a.allFiles(operands)
}

// oneFile allows only one operand, because uniq writes to its second one.
func oneFile(a *argv, operands []int) error {
	if len(operands) > 1 {
		return refuse(operands[1], "%s writes its second operand", a.command)
	}
	return a.allFiles(operands)
}

// tailFiles checks the operands of tail. It refuses a word such as +5f, which is an option that waits for more text.
func tailFiles(a *argv, operands []int) error {
	for _, i := range operands {
		if number, ok := strings.CutPrefix(a.args[i], "+"); ok && strings.Trim(number, "0123456789") != "" {
			return refuse(i, "%q may make tail wait for more", a.args[i])
		}
	}
	return a.allFiles(operands)
}

// noFiles is for tr: its operands are not files.
func noFiles(*argv, []int) error { return nil }
