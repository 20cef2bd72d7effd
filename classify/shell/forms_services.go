package shell

// serviceForms returns the forms of programs that query a daemon or a service with the default configuration of the
// program. The forms omit options that select another endpoint, configuration or credentials, and commands that print a
// secret: these need an approval.
func serviceForms(program string) string {
	switch program {
	case "docker", "podman", "nerdctl":
		return dockerForms
	case "kubectl", "oc":
		return kubectlForms
	case "helm":
		return `-n= --namespace= --debug
			list, ls: -aqArd -o= -f= -l= -m= --all --all-namespaces --output= --filter= --short --deployed --failed --pending --max= --time-format= --selector=
			status, history, get values, get manifest, get notes, get hooks, get metadata: -a -o= --output= --all --revision= --max= --show-desc --show-resources | ?
			version, env, repo list, plugin list, dependency list, search repo: -l -o= --short --template= --versions --output= --devel --max-col-width= | *
			show values, show chart, show readme, show crds, lint: | local`
	case "aws":
		return awsForms
	case "gcloud":
		return `--project= --format= --filter= --limit= --region= --zone= --quiet -q --sort-by= --verbosity= --uri --zones= --regions= --location= --page-size=
			version, info, config list, config get-value, config get, config configurations list, auth list, components list:| *
			* list, * * list, * * * list, * describe, * * describe, * * * describe: | nosecret`
	case "gh":
		return ghForms
	case "terraform", "tofu":
		return `version: ^json
			fmt: ^check! ^diff ^recursive ^no-color ^list= | *
			state list: ^id= | *
			workspace list, workspace show, providers, metadata functions: ^json ^no-color
			output: ^json ^raw ^no-color | ?
			: ^help! ^version! ^h! ^v!`
	case "curl":
		return `: -V! --version!
			: -h! --help! | all category auth connection curl dns file ftp http imap misc output pop3 post proxy scp sftp smtp ssh telnet tftp tls upload verbose`
	case "wget":
		return `: -V! --version! -h! --help!`
	case "ssh":
		return `: -V!
			: -Q=!`
	case "ssh-keygen":
		return `: -l! -F=! -v -f= -E= | ?`
	case "ssh-add":
		return `: -lL!`
	case "rsync":
		return `: -n! --dry-run! --list-only! -avzruhiPcltpgoDHAXxqSOJm -C --archive --verbose --compress --recursive --itemize-changes --stats --delete --delete-after --delete-excluded --progress --checksum --size-only --human-readable --partial --update --existing --ignore-existing --links --perms --times --exclude= --include= --exclude-from=local --include-from=local --max-size= --min-size= --info= --out-format= | local
			: -V!`
	case "psql", "mysql", "redis-cli", "pg_isready":
		return `: -V!`
	}
	return ""
}

const dockerForms = `-D --debug -l= --log-level=
	ps, container ls, container ps, container list: -aqls -n= -f= --all --quiet --latest --size --no-trunc --filter= --format= --last=
	images, image ls, image list: -aq -f= --all --quiet --digests --no-trunc --tree --filter= --format= | ?
	logs, container logs: -ft -n= --follow --timestamps --details --tail= --since= --until= | *
	inspect, container inspect, image inspect, network inspect, volume inspect, node inspect, service inspect: -s -f= --size --format= --type= | *
	version, info, system info: -f= --format=
	stats, container stats: -a --all --no-stream --no-trunc --format= | *
	top, port, diff, container top, container port, container diff: | *
	history, image history: -Hq --human --quiet --no-trunc --format= | ?
	network ls, network list, volume ls, volume list, plugin ls, secret ls, config ls, node ls, service ls, stack ls: -q -f= --quiet --no-trunc --filter= --format=
	context ls, context list, context show, buildx ls, buildx version, buildx du: -q --quiet --format= --verbose
	system df: -v --verbose --format=
	events: -f= --filter= --since= --until= --format=
	compose ps, compose images, compose top, compose ls, compose version, compose port, compose logs, compose config, compose events: -aqft -n= -f=local -p= --file=local --project-name= --profile= --project-directory= --all --quiet --services --volumes --images --hash= --profiles --format= --filter= --status= --tail= --since= --until= --timestamps --follow --no-color --no-log-prefix --no-interpolate --no-trunc --short --orphans? | *
	compose: -f=local --file=local
	help: | *`

const kubectlForms = `-n= --namespace= --context= --request-timeout= -v= --v=
	get, events: -ALw -o= -l= -L= --all-namespaces --output= --selector= --field-selector= --show-labels --show-kind --sort-by= --watch --watch-only --no-headers --ignore-not-found --label-columns= --chunk-size= --subresource= --types= --for= | nosecret
	describe: -A -l= --selector= --all-namespaces --show-events? --chunk-size= | *
	logs: -fp -c= -l= --follow --previous --container= --selector= --tail= --since= --since-time= --timestamps --all-containers? --prefix --limit-bytes= --ignore-errors --max-log-requests= --all-pods? | *
	top, top node, top nodes, top pod, top pods: -A -l= --all-namespaces --selector= --sort-by= --containers --no-headers --sum | *
	version: --client? -o= --output= --short
	config view: -o= --output= --minify
	config current-context, config get-contexts, config get-clusters, config get-users: -o= --output= --no-headers | *
	api-resources, api-versions: -o= --output= --namespaced? --api-group= --verbs= --no-headers --sort-by= --cached
	explain: --recursive --api-version= --output= | ?
	cluster-info, options:
	rollout status, rollout history: -w --watch? --timeout= --revision= -o= --output= -l= | *
	auth can-i, auth whoami: -Aq --list --all-namespaces --quiet --no-headers --subresource= -o= --output= | *
	diff: -f=local -R --filename=local --recursive --server-side
	plugin list: --name-only
	help: | *`

// awsForms allows the operations that describe and list. These have too many parameters for a table. So all long
// options are allowed except the global options that select another endpoint, configuration or credentials.
const awsForms = `--output= --region= --query= --no-cli-pager --no-paginate --color= --no-color
	* describe-*, * list-*, s3api head-*, s3api get-bucket-*, sts get-caller-identity, iam get-user, iam get-role, iam get-policy, iam get-policy-version, iam get-account-summary, logs filter-log-events, logs get-log-events, logs tail, cloudwatch get-metric-*, lambda get-policy, ce get-cost-and-usage, cloudformation get-template, ec2 get-console-output: --* !--endpoint-url !--ca-bundle !--no-verify-ssl !--cli-input-json !--cli-input-yaml !--cli-auto-prompt !--profile !--debug !--cli-error-format | nourl
	s3 ls: --recursive --human-readable --summarize --request-payer? --page-size= | nourl
	configure list, configure list-profiles:
	help, * help, * * help:`

const ghForms = `-R= --repo=
	pr list, issue list, run list, release list, repo list, workflow list, label list, gist list, cache list, ruleset list, variable list, secret list, project list: -L= -l= -s= -a= -A= -B= -S= -H= -q= -t= -b= -u= -e= --limit= --state= --label= --assignee= --author= --base= --head= --search= --json= --jq= --template= --draft --app= --mention= --milestone= --workflow= --branch= --user= --event= --status= --commit= --all --visibility= --source --fork --language= --topic= --archived --no-archived | ?
	pr view, pr diff, pr checks, pr status, issue view, issue status, run view, release view, repo view, workflow view, gist view, label view, ruleset view: -cv -j= -q= -t= -b= -r= -a= --comments --json= --jq= --template= --log --log-failed --job= --exit-status --verbose --attempt= --name-only --patch --color= --required --yaml --raw --files --branch= --conflict-status | *
	search issues, search prs, search repos, search code, search commits: -L= --limit= --repo= --owner= --state= --label= --author= --assignee= --language= --json= --jq= --template= --sort= --order= --match= --created= --updated= --filename= --extension= --topic= --stars= | *
	auth status: -a --active
	api: -i -X=GET --method=GET -q= -t= --jq= --template= --paginate --slurp --include --cache= --silent --verbose | nourl
	status, version, help, config list, alias list, extension list: | *`
