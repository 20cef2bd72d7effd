package bus

// The subjects of requests.
const (
	// CommandPrefix is the prefix of the commands of faces to the node.
	CommandPrefix = "orch.cmd"
	// WorkPrefix is the prefix of the calls of workers to the node. Beside it a worker may publish notifications.
	WorkPrefix = "orch.work"
	// ServersPrefix is the prefix of the requests about the MCP servers of a node. Only the credential of the operator
	// may send them: they start programs, and accept what servers say.
	ServersPrefix = "orch.servers"
	// NodesPrefix is the prefix of the requests about the nodes that share a log.
	NodesPrefix = "orch.nodes"
	// AuditPrefix is the prefix of what faces in other processes report of their clients. Only the credential of the operator
	// may send that.
	AuditPrefix = "orch.audit"
	// DatabasePrefix is the prefix of the requests of workers about the databases of a node.
	DatabasePrefix = WorkPrefix + ".firebase"
	// SessionPrefix is the prefix of the requests of faces about sessions that have subscriptions. Only the credential of
	// the operator may send them.
	SessionPrefix = "orch.session"
	// AgentPrefix is the prefix of the requests about agents. Only the credential of the operator may send them: they say for
	// whom they are, and collect secrets.
	AgentPrefix = "orch.agents"
	// TokenPrefix is the prefix of the requests about tokens. Only the credential of the operator may send them.
	TokenPrefix = "orch.token"
	// MessagesPrefix is the prefix of the requests of faces about messages. Only the credential of the operator may send
	// them: they say for whom they are.
	MessagesPrefix = "orch.messages"
	// WorkMessagesPrefix is that of running calls, whose requests say which call it is: the node knows whom it acts for.
	WorkMessagesPrefix = WorkPrefix + ".messages"
	// TunnelSubject is where the active node of a cluster takes tunnels to its HTTP faces. Who may use it, and the inboxes of
	// those who do, speaks to them as over the network; credentials count there as well.
	TunnelSubject = "orch.tunnel"
	// AgentSubjects is the prefix of the subjects at which registered agents speak for themselves:
	// "orch.agent.<id of the agent>.tasks", .status, .results and .credential. The id says who speaks, because the server lets
	// nobody publish there but the agent.
	AgentSubjects = "orch.agent"
	// IdentitySubjects is the prefix of the subjects at which people speak for themselves, with tokens of their own:
	// "orch.as.<digest of the secret>.<method>". The digest says who speaks: the embedded server lets nobody publish there but
	// whoever has connected with the secret, the operator no more than others. An external server lets in whom its own permissions let in.
	IdentitySubjects = "orch.as"
)

// The subjects of answers.
const (
	// Inboxes begin the subjects at which answers are awaited.
	Inboxes = "_INBOX"
	// workerInbox keeps replies to workers apart, so that a worker cannot read those to others.
	workerInbox = "_INBOX_worker"
)

// AgentInbox is the prefix of the subjects at which an agent is answered. It may listen to no others.
func AgentInbox(id string) string { return Inboxes + "." + id }

// IdentityInbox is the prefix of the subjects at which who has a token is answered, by the digest of its secret.
func IdentityInbox(digest string) string { return Inboxes + "." + digest }
