package shell

// systemForms returns the forms of programs that show the state of the machine.
func systemForms(program string) string {
	switch program {
	case "mount":
		return `: -lv -t= --show-labels`
	case "findmnt":
		return `: -abcDefiJklnPrRsuUvy -t= -T= -S= -M= -o= -O= --target= --source= --output= --types= --json --real --list --noheadings --df | *`
	case "swapon":
		return `: --show? --summary -s --noheadings --bytes --raw --output-all`
	case "top":
		return `: -b! -cHi1 -n= -d= -p= -o= -w? -u= -U=`
	case "pgrep":
		return `: -acdfFilLnoPrvwx -g= -G= -s= -t= -u= -U= --full --list-name --list-full --count --newest --oldest --exact --ignore-case --inverse --parent= --uid= --euid= --delimiter= | *`
	case "fuser":
		return `: -4 -6 -acClmuvV -n= --all --mount --user --verbose | *`
	case "lsof":
		return `: -abChlnNoOPRtUvVwX -c= -d= -f? -F? -g? -i? -p= -s? -u= -S? -T? | noplus`
	case "kill":
		return `: -lL! --list?! --table! | *`
	case "pushd":
		return `: -n | ?`
	case "popd":
		return `: -n`
	case "dirs":
		return `: -lpv -#`
	case "hostname":
		return `: -fiIsdAya --fqdn --long --short --ip-address --all-ip-addresses --domain --all-fqdns --alias`
	case "ulimit":
		return `: -HSacdefilmnpqrstuvx`
	case "alias", "hash":
		return `: -plt`
	case "lsb_release":
		return `: -vidrcash --all --id --description --release --codename --short`
	case "hostnamectl", "localectl":
		return `--json= --no-pager
			: 
			status: --static --transient --pretty
			list-locales, list-keymaps:`
	case "timedatectl":
		return `--no-pager
			:
			status, show, list-timezones, timesync-status, show-timesync: -a --all -p= --property= --value`
	case "loginctl":
		return `--no-pager --no-legend --json=
			: 
			list-sessions, list-users, list-seats: -al
			session-status, user-status, seat-status, show-session, show-user, show-seat: -al -p= --property= --value -n= -o= | *`
	case "dmesg":
		return `: -HkLtTurxwPe -l= -f= --level= --facility= --human --kernel --ctime --follow --nopager --color? --decode --since= --until= --time-format= --raw --json --userspace`
	case "lspci":
		return `: -vnkxtmDPb -s= -d=`
	case "lsusb":
		return `: -vt -s= -d=`
	case "modinfo":
		return `: -0adlnp -F= -k= --field= --parameters --description --license --author --filename | *`
	case "sysctl":
		return `: -aAnNebqrXx --all --values --names --ignore --deprecated --pattern= | noassign`
	case "getent":
		return `passwd, group, services, protocols, rpc, networks, netgroup: -s= | *`
	}
	return daemonForms(program)
}

// daemonForms returns the forms of programs that show services, logs, timers and manual pages.
func daemonForms(program string) string {
	switch program {
	case "service":
		return `* status: --no-pager
			: --status-all!`
	case "systemctl":
		return `-alqr -t= -p= -n= -o= --user --system --no-pager --all --full --plain --no-legend --quiet --recursive --value --failed --type= --state= --property= --output= --lines= --with-dependencies --reverse --after --before
			status, show, cat, is-active, is-enabled, is-failed, list-units, list-unit-files, list-timers, list-sockets, list-dependencies, list-jobs, list-machines, list-paths, list-automounts, get-default, show-environment, is-system-running, help: | *
			:`
	case "systemd-analyze":
		return `--no-pager --user --system
			: 
			blame, time, critical-chain, unit-paths, calendar, timespan, timestamp, security: --fuzz= --iterations= | *`
	case "journalctl":
		return `: -abefklmqrx -# -n? -o= -p= -t= -u= -S= -U= -g= -F= -N -D= --all --boot? --catalog --case-sensitive? --directory=local --disk-usage --dmesg --facility= --field= --fields --file=local --follow --full --grep= --header --identifier= --lines? --list-boots --list-catalog --merge --namespace= --no-full --no-hostname --no-pager --no-tail --output= --output-fields= --pager-end --priority= --quiet --reverse --since= --system --truncate-newline --unit= --until= --user --user-unit= --utc --verify | *`
	case "crontab":
		return `: -l! -u=`
	case "atq":
		return `: -V -q=`
	case "man":
		return `: -kfwWaiI -s= -S= -L= -R= -e= -7 --apropos --whatis --where --path --location --all --regex --wildcard --names-only --sections= --locale= --no-hyphenation --no-justification --ignore-case --match-case --debug --usage | name`
	case "apropos", "whatis":
		return `: -adelrvw -s= -L= --exact --wildcard --and --long --regex --section= --sections= --verbose | name`
	}
	return networkForms(program)
}

// networkForms returns the forms of programs that show network state.
func networkForms(program string) string {
	switch program {
	case "ip":
		return `^4 ^6 ^br ^brief ^j ^json ^p ^pretty ^s ^stats ^statistics ^d ^details ^o ^oneline ^c ^color ^N ^r ^resolve ^h ^human
			addr, address, a, link, l, route, r, rule, ru, neigh, neighbour, neighbor, n, maddr, mroute, tunnel, netns, token, ntable:
			addr show, addr list, addr ls, addr s, address show, address list, a show, a s, a list, link show, link list, link ls, l show, route show, route list, route ls, route get, r show, r get, rule show, rule list, neigh show, neigh list, n show, maddr show, netns list, tunnel show: | *`
	case "ifconfig":
		return `: -asv | ?`
	case "netstat":
		return `: -rigMsvWneopclaFCtuwxlzZ46 -A= --route --interfaces? --tcp --udp --raw --unix --listening --all --numeric --programs --statistics --verbose --extend --timers --wide | `
	case "ss":
		return `: -hVnraloemipsEZzbB046tuwxdSMHOTW -A= -f= --numeric --resolve --all --listening --options --extended --memory --processes --info --summary --tcp --udp --raw --unix --family= --query= --no-header --oneline | *`
	case "route":
		return `: -neCFv46`
	case "arp":
		return `: -aenv -i= | ?`
	case "nmcli":
		return `-tpg -f= -m= -c= --terse --pretty --fields= --mode= --colors= --get-values=
			:
			general, device, connection, networking, radio, dev, con:
			general status, device status, device show, device wifi list, connection show, networking connectivity, radio all, dev status, con show: | *`
	case "resolvectl":
		return `--no-pager --legend= --json= -4 -6 -i=
			:
			status, statistics, dns, domain, default-route, llmnr, mdns, dnssec, nta, show-cache, show-server-state:`
	}
	return ""
}
