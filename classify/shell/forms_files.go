package shell

// forms returns the read-only forms of a program, in the syntax that type form describes, or "".
func forms(program string) string {
	for _, table := range []func(string) string{fileForms, archiveForms, systemForms, packageForms, languageForms, serviceForms, gitForms} {
		if text := table(program); text != "" {
			return text
		}
	}
	return ""
}

// fileForms returns the forms of programs that read files.
func fileForms(program string) string {
	switch program {
	case "fd", "fdfind":
		return `: --hidden --no-ignore --unrestricted --list-details --extension= --type= --max-depth= --min-depth= --exclude= --glob --full-path --follow --print0 --size= --changed-within= --changed-before= --color= --absolute-path -HIualpFisg0q1L -e= -t= -d= -E= -c= -j= -S= | *`
	case "ag", "ack":
		return `: -aciLlnQSsuvwz -A= -B= -C= -G= -g= -m= -# --go --cc --cpp --css --html --java --js --json --markdown --perl --php --python --ruby --rust --shell --sql --ts --xml --yaml --hidden --ignore= --ignore-dir= --nocolor --color --nogroup --group --literal --smart-case --depth= --count --files-with-matches --column --numbers | *`
	case "locate", "plocate", "mlocate":
		return `: -bceiqrwA0 -l= -n= --basename --count --existing --ignore-case --limit= --regex --regexp= --null | *`
	case "sdiff":
		return `: -ilabBEWsH -w= --suppress-common-lines --left-column --ignore-case --width= --text --expand-tabs | *`
	case "diffstat":
		return `: -bcCdfklmqrRsSuv -n= -p= -w= -# | *`
	case "nm":
		return `: -aACDgnprSu -t= --dynamic --demangle --undefined-only --defined-only --extern-only --print-size --size-sort --numeric-sort | noresponse`
	case "objdump":
		return `: -aCdDfghlpPrRsStTwxz -j= -M= -m= -b= --disassemble --all-headers --headers --syms --dynamic-syms --reloc --source --demangle --no-show-raw-insn --section= --start-address= --stop-address= --full-contents --private-headers --file-headers | noresponse`
	case "size":
		return `: -ABdoxtG --format= --radix= --totals --common | noresponse`
	case "readelf":
		return `: -aAcdDehIlnrsSuVW -p= -R= -x= --all --headers --file-header --program-headers --segments --section-headers --sections --symbols --syms --dyn-syms --notes --relocs --dynamic --wide --string-dump= --hex-dump= --debug-dump? | noresponse`
	case "xxd":
		return `: -bEipruC -c= -l= -s= -g= -o= | ?`
	case "iconv":
		return `: -cls -f= -t= --from-code= --to-code= --list --silent | *`
	case "xmllint":
		return `: --noout --format --nonet --html --recover --c14n --nowarning --pretty= --xpath= --schema=local --relaxng=local | local`
	case "shellcheck":
		return `: -xa -s= -e= -f= -S= -W= -o= -i= -C? --shell= --exclude= --format= --severity= --external-sources --color? | *`
	case "less", "zless":
		return `: -NRSXFiIMmsrnfeEqQ -# --LINE-NUMBERS --RAW-CONTROL-CHARS --chop-long-lines --quit-if-one-screen --no-init | noplus`
	case "more", "zmore":
		return `: -dfpcsue -n= -# | noplus`
	case "tee":
		return `: -aip --append --ignore-interrupts | /dev/null /dev/stdout /dev/stderr`
	case "openssl":
		return `version: -abdefoprv
			x509: ^noout! ^in=local ^inform= ^text ^subject ^issuer ^dates ^enddate ^startdate ^fingerprint ^serial ^pubkey ^modulus ^sha256 ^sha1 ^ext= ^checkend= ^nameopt= ^purpose ^email ^hash ^issuer_hash ^alias
			crl, req: ^noout! ^in=local ^inform= ^text ^subject ^issuer ^verify ^fingerprint ^lastupdate ^nextupdate ^nameopt=
			dgst: ^md5 ^sha1 ^sha224 ^sha256 ^sha384 ^sha512 ^r ^hex ^c ^binary | *
			md5, sha1, sha256, sha512: ^r ^hex ^c | *
			list: ^commands ^digest-commands ^cipher-commands ^cipher-algorithms ^digest-algorithms ^providers
			ciphers: ^v ^V ^s ^tls1_2 ^tls1_3 | *
			rand: ^hex ^base64 | ?
			verify: ^CAfile=local ^CApath=local ^untrusted=local ^show_chain | local`
	case "gpg":
		return `: --list-keys! --list-public-keys! --list-secret-keys! --fingerprint! --list-packets! -kK! --with-colons --with-fingerprint --with-subkey-fingerprint --keyid-format= --no-auto-check-trustdb --batch --no-tty | *`
	}
	return ""
}

// archiveForms returns the forms of archive programs.
func archiveForms(program string) string {
	switch program {
	case "tar":
		return `: -td! --list! --diff! --compare! -vzjJaZpPkRSO -f=local --file=local --verbose --gzip --bzip2 --xz --zstd --wildcards --exclude= --strip-components= --full-time --numeric-owner --occurrence? -C= --directory= --auto-compress --no-recursion --utc | *
			: -x! --extract! --get! -O% --to-stdout% -vzjJaZ -f=local --file=local --verbose --gzip --bzip2 --xz --zstd --wildcards --exclude= --strip-components= --no-recursion --occurrence? | *
			: -c! --create! -vzjJZhpS -f=- --file=- --verbose --gzip --bzip2 --xz --zstd --exclude= --exclude-vcs --dereference -C= --directory= --numeric-owner --owner= --group= --mtime= --sort= --format= --no-recursion | *`
	case "cpio":
		return `: -t! --list! -ivznB0 --extract --verbose --quiet --null --numeric-uid-gid | *`
	case "ar":
		return `t, tv, tO, p, pv: | noresponse
			: -t! -vO | noresponse`
	case "jar":
		return `tf, tvf, -tf, -tvf: | *`
	case "7z", "7za", "7zr":
		return `l, t: ^slt ^ba ^r | *`
	case "unzip":
		return `: -ltpvZz! -qC12haMT | *`
	case "zipinfo":
		return `: -12lvhtmsMzTC | *`
	case "zip":
		return `: ^sf! | ?`
	case "bzip2", "bunzip2":
		return `: -ct! --stdout! --test! -dfkqv -# --decompress --keep --force --quiet --verbose --fast --best | *`
	case "gzip", "gunzip", "xz", "unxz", "pigz":
		return `: -clt! --stdout! --to-stdout! --list! --test! -dfknqv -# --decompress --keep --force --quiet --verbose --fast --best | *`
	case "zstd", "unzstd":
		return `: -clt! --stdout! --list! --test! -dfkqv -# --decompress --keep --force --quiet --verbose | *`
	case "zstdcat", "lz4cat", "lzcat", "zstdless":
		return `: -fqv | *`
	}
	return ""
}
