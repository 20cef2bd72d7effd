package bus

// The subjects of requests.
const (
	// CommandPrefix is the prefix of the commands that interfaces for clients, such as MCP and HTTP, send to the node.
	CommandPrefix = "orch.cmd"
	// WorkPrefix is the prefix of the requests of workers to the node.
	WorkPrefix = "orch.work"
	// ServersPrefix is the prefix of the requests about the MCP servers of a node. Only the operator's credential may send
	// them: they start programs and accept definitions of servers.
	ServersPrefix = "orch.servers"
	// NodesPrefix is the prefix of the requests about the nodes that share a log.
	NodesPrefix = "orch.nodes"
	// AuditPrefix is the prefix of audit reports: an interface for clients in another process sends them about its clients. Only
	// the operator's credential may send them.
	AuditPrefix = "orch.audit"
	// DatabasePrefix is the prefix of the requests of workers about the databases of a node.
	DatabasePrefix = WorkPrefix + ".firebase"
	// SessionPrefix is the prefix of the requests about sessions with subscriptions. Only the operator's credential may
	// send them.
	SessionPrefix = "orch.session"
	// AgentPrefix is the prefix of the requests about agents. Only the operator's credential may send them, because such a
	// request may act for any identity and fetch secrets.
	AgentPrefix = "orch.agents"
	// TokenPrefix is the prefix of the requests about tokens. Only the operator's credential may send them.
	TokenPrefix = "orch.token"
	// PagePrefix is the prefix of the requests about the web page. Only the operator's credential may send them, because a link to
	// the page logs in as the operator.
	PagePrefix = "orch.page"
	// MessagesPrefix is the prefix of the requests about messages. Only the operator's credential may send them, because such a
	// request may act for any identity.
	MessagesPrefix = "orch.messages"
	// WorkMessagesPrefix is the prefix of the requests about messages from running calls. Such a request contains the call; the
	// node knows the identity for which the call runs.
	WorkMessagesPrefix = WorkPrefix + ".messages"
	// TunnelSubject is the subject on which the active node of a cluster accepts tunnels to its HTTP server. A tunnel is like a
	// connection over the network: requests inside it still need a credential.
	TunnelSubject = "orch.tunnel"
	// AgentSubjects is the root of the subjects "orch.agent.<id>.tasks", .status, .results and .credential of an agent. The id
	// in the subject authenticates the agent, because the server lets no one else publish there.
	AgentSubjects = "orch.agent"
	// IdentitySubjects is the root of the subjects "orch.as.<digest of the secret>.<method>". The digest authenticates the
	// sender: the embedded server lets only a connection with that secret publish there, and not even the operator. An
	// external server applies the permissions that its operator has configured.
	IdentitySubjects = "orch.as"
)

// The subjects of replies.
const (
	// Inboxes is the root of the subjects of replies.
	Inboxes = "_INBOX"
	// workerInbox is the root of the subjects of replies to workers, so that workers cannot read other replies.
	workerInbox = "_INBOX_worker"
)

// AgentInbox returns the prefix of the subjects of replies to an agent. The agent cannot subscribe to any other subject.
func AgentInbox(id string) string { return Inboxes + "." + id }

// IdentityInbox returns the prefix of the subjects of replies to the owner of a token; digest is that of its secret.
func IdentityInbox(digest string) string { return Inboxes + "." + digest }
