package shell

// gitForms returns the forms of git. Its global options are not part of them; the check git skips these and accepts
// further calls.
func gitForms(program string) string {
	if program != "git" {
		return ""
	}
	return `clean: -n! --dry-run! -dxXq -e= --exclude= --quiet | *
		rm, add: -n! --dry-run! -rqvA --cached --ignore-unmatch --quiet --verbose --all --ignore-missing | *
		mv: -n! --dry-run! -kv | *
		commit: --dry-run! -aqsv -m= --message= --short --porcelain --long --branch --all | *
		prune: -n! --dry-run! -v --verbose
		apply: --check! --stat! --numstat! --summary! -vR3 -p= --verbose --reverse --cached --index --directory= --recount --ignore-whitespace | *
		archive: -lv --list --format= --prefix= --worktree-attributes --verbose -# | *
		fsck: --full --no-dangling --dangling --unreachable --no-reflogs --connectivity-only --strict --verbose --progress --no-progress --root --tags --cache | *
		verify-pack: -vs --verbose --stat-only | *
		bundle verify, bundle list-heads: -q --quiet | *
		symbolic-ref: -q --quiet --short --recurse --no-recurse | ?
		help, version: -agcmv --all --guides --config --man --build-options --verbose | *
		lfs ls-files, lfs env, lfs status, lfs version: -als --all --long --size --json --porcelain --debug | *
		interpret-trailers: --parse! --only-trailers --only-input --unfold | *
		sparse-checkout list, bisect log:
		hash-object: --stdin --no-filters --literally -t= | *
		format-patch: --stdout! -# -nkNs -M? --no-signature --no-stat --no-numbered --cover-letter --root --base= --subject-prefix= --signoff --keep-subject --numbered | *
		notes list, notes show: | *
		reflog: -# -gp -n= --oneline --all --date= --format= --pretty? --stat --since= --until= --grep= --author=
		reflog show, reflog list: -# -gp -n= --oneline --all --date= --format= --pretty? --stat --since= --until= --grep= --author= | *
		worktree list: -vz --porcelain --verbose
		submodule: --quiet --cached
		submodule status, submodule summary: --recursive --cached --quiet | *
		config: --local --global --system --worktree --show-origin --show-scope -z --null --name-only --type= --bool --int --path | key
		config: --get! --get-all! --get-regexp! --get-urlmatch! --list! -l! --local --global --system --worktree --show-origin --show-scope -z --null --name-only --type= --bool --int --default= --includes | *
		config get, config list: --all --local --global --system --worktree --show-origin --show-scope -z --null --show-names --regexp --value= --type= --default= --name-only | *
		remote: -v --verbose
		remote get-url: --all --push | *
		remote show: -n! | *
		stash list, stash show: -# -pu --patch --stat --name-only --name-status --include-untracked --oneline --format= --date= -n= --only-untracked --numstat | *
		branch: -arv --all --remotes --show-current --verbose --sort= --format= -i --ignore-case --column? --no-column --color? --no-color --abbrev=
		branch: -l! --list! --contains! --no-contains! --merged! --no-merged! --points-at! -arv --all --remotes --verbose --sort= --format= -i --ignore-case --column? --no-column --color? --no-color --abbrev= | *
		tag: --sort= --format= -i --ignore-case --column? --no-column --color?
		tag: -l! --list! -n?! --contains! --no-contains! --points-at! --merged! --no-merged! -i --sort= --format= --ignore-case --column? --no-column --color? | *
		add, blame, branch, checkout, clone, commit, diff, fetch, grep, log, merge, pull, push, rebase, reset, show, stash, status, tag: --help!`
}
