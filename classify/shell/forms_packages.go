package shell

// packageForms returns the forms of package managers.
func packageForms(program string) string {
	switch program {
	case "dpkg":
		return `: -lLsSpIcCV! --list! --listfiles! --status! --search! --print-avail! --info! --contents! --audit! --verify! --get-selections! --print-architecture! --print-foreign-architectures! --compare-versions! --no-pager | *`
	case "dpkg-query":
		return `: -WlLsSp! -f= --show! --list! --listfiles! --status! --search! --showformat= --no-pager | *`
	case "dpkg-deb":
		return `: -Icf! -W! --info! --contents! --field! --show! --showformat= | *`
	case "apt":
		return `list, show, search, policy, depends, rdepends: -aqn --installed --upgradable --all-versions --names-only --full --manual-installed --quiet? -# | *
			help:`
	case "apt-get":
		return `upgrade, dist-upgrade, full-upgrade, install, reinstall, remove, purge, autoremove: -s! --simulate! --dry-run! --just-print! --no-act! -qyVu --yes --assume-yes --quiet? --no-install-recommends --with-new-pkgs | *`
	case "apt-cache":
		return `policy, search, show, showpkg, depends, rdepends, madison, stats, pkgnames, showsrc, dump, unmet: -anfiq --names-only --all-versions --full --installed --recurse --no-recommends --no-suggests | *`
	case "apt-mark":
		return `showhold, showauto, showmanual, showinstall, showremove, showpurge: | *`
	case "rpm":
		return `: -q! --query! -alifcdRvsg --all --list --info --file --configfiles --docfiles --requires --provides --changelog --scripts --whatprovides --whatrequires --last --queryformat= --qf= | *`
	case "dnf", "yum":
		return `-qCy --quiet --cacheonly --assumeno
			list, info, repolist, provides, search, list installed, list available, list updates, history list, grouplist: --installed --available --all --upgrades --extras --showduplicates | *`
	case "apk":
		return `info, list, search, policy, version, stats: -aIudLRvwWrqstPZe --installed --upgradable --available --description --depends --contents --size --exact | *`
	case "brew":
		return `list, ls, info, deps, uses, config, leaves, desc, tap-info: -1lrtvq --versions --formula --cask --json? --tree --installed --pinned --multiple --full-name --verbose --quiet | *
			: --prefix! --cellar! --repository! --config!`
	case "snap":
		return `list, info, version, connections, services, changes, interfaces: --all --verbose --unicode= --color= | *`
	case "pip", "pip3":
		return `-qv --quiet --verbose --no-color --disable-pip-version-check --no-input --isolated --no-python-version-warning
			list, freeze: -ouel --outdated --uptodate --editable --local --user --pre --format= --not-required --exclude= --exclude-editable --include-editable --all
			show: -f --files | *
			check, debug, inspect: --local --user
			config list, config get, config debug: --global --user --site | *
			cache dir, cache info, cache list: --format= --abspath | *
			index versions: --pre --json | ?
			help: | *
			: -V!`
	case "uv":
		return `pip list, pip freeze, pip show, pip tree, pip check: -q --quiet --format= --outdated --exclude= --strict --files --depth= | *
			python list, python dir, tool list, tool dir, cache dir, help: -q --only-installed --all-versions --short --show-paths --output-format= | *`
	case "poetry":
		return `config: --list!
			version, about, env list, env info: -s --short --full-path
			show, list: --tree --latest --outdated --all --top-level --only= --with= --without= --path --short --full-path -toalTspv | *`
	case "conda", "mamba":
		return `list: -nefc --explicit --full-name --json --export --canonical --show-channel-urls | *
			list: -n= --name= --json --explicit | *
			env list, info, info --envs: --json -aes --envs --all --system
			config: --show! --show-sources! --get! --json | *`
	}
	return languagePackageForms(program)
}

// languagePackageForms returns the forms of package managers of Node.js and Rust.
func languagePackageForms(program string) string {
	switch program {
	case "npm":
		return `-gaslp --global --json --long --parseable --silent --all --depth= --loglevel= --workspaces
			ls, list, ll, la, view, info, show, v, outdated, root, prefix, explain, why, help, query, search, fund, whoami, help-search: --omit= --include= --prod --production --dev --only= -w= --workspace= --link --package-lock-only --description --long | *
			pkg get, config get, config list, config ls, dist-tag ls, owner ls, access list, profile get, cache ls: | *
			: -v! -h! --versions! -l`
	case "yarn":
		return `list, why, info, outdated, licenses list, config list, config get, cache dir, global list, global dir, versions, workspaces info, help, bin: --pattern= --depth= --json --silent -s --all --recursive -A -R | *
			: -v! -h!`
	case "pnpm":
		return `ls, list, ll, why, outdated, root, licenses list, config list, config get, store path, view, info, help, bin: --depth= --json --long --parseable -g --global -r --recursive --prod --dev -PD --silent --filter= | *
			: -v! -h!`
	case "cargo":
		return `help, search, pkgid, locate-project, read-manifest, version, info: --limit= -q --quiet --workspace --message-format= --offline -pv --package= | *
			tree: -aefilnpq -d -e= -i= -p= -F= --duplicates --depth= --edges= --invert? --package= --workspace --all-features --no-default-features --features= --target= --prefix= --no-dedupe --locked --offline --frozen --format= --charset=
			fmt: --check! --all -qv -p= --package=
			metadata: --format-version? --format-version= --no-deps --locked --offline --frozen --all-features --filter-platform= --manifest-path= -q
			: --list! -V!`
	case "rustup":
		return `show, show active-toolchain, show home, show profile, toolchain list, target list, component list, which, help: -v --verbose --installed --toolchain= -q | *`
	}
	return ""
}

// languageForms returns the forms with which compilers and interpreters only print information about themselves.
func languageForms(program string) string {
	switch program {
	case "node", "nodejs", "perl", "ruby", "php", "lua":
		return `: -v!
			: -h!`
	case "python", "python3", "bash", "sh", "rustfmt":
		return pythonForms(program)
	case "java", "javac", "kotlinc", "scala":
		return `: ^version! ^showversion! ^fullversion! ^help! -h!`
	case "gcc", "cc", "g++", "c++", "clang", "clang++", "gfortran", "tcc":
		return `: -v! ^dumpmachine! ^dumpversion! ^dumpfullversion! ^print-search-dirs! ^print-sysroot! ^print-multiarch! ^print-file-name= ^print-prog-name= ^print-resource-dir!`
	case "rustc":
		return `: -Vv! --version! -v --verbose --print= --explain=`
	case "pkg-config", "pkgconf":
		return `: --cflags --libs --libs-only-l --libs-only-L --cflags-only-I --modversion --exists --variable= --static --print-errors --list-all --print-variables --print-requires --atleast-version= --silence-errors --short-errors --errors-to-stdout | *`
	case "gofmt", "gofumpt", "goimports":
		return `: -ldse | *`
	case "go":
		return `clean: ^n! ^x ^cache ^testcache ^i ^r | *
			tool: ^n`
	}
	return ""
}

func pythonForms(program string) string {
	switch program {
	case "python", "python3":
		return `: -Vh!`
	case "bash", "sh":
		return `: -n! | *`
	case "rustfmt":
		return `: --check! -lqv --edition= --color= | *`
	}
	return ""
}
