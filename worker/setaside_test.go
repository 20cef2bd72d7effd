package worker

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestPlainConfig(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n\tlogallrefupdates = true\n",
		"[remote \"origin\"]\n\turl = https://example.com/x.git\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n[branch \"main\"]\n\tremote = origin\n\tmerge = refs/heads/main\n",
		"[user]\nname = Ada\nemail = a@b.c",
	} {
		assert.True(t, plainConfig(text), text)
	}
	for _, text := range []string{
		"[core]\n\tfsmonitor = ./e.sh\n", "[core] fsmonitor = ./e.sh\n", "[Core]\nFSMonitor=x\n", "[include]\npath = x\n", "[filter \"x\"]\nclean = ./e.sh\n",
		"[core]\nbare = \\\nfsmonitor = x\n", "[remote \"a]b\"]\nurl = x\n", "[alias]\nst = !x\n", "[remote \"origin\"]\nuploadpack = ./e.sh\n", "x\n", "[core]\nsshcommand = x\n",
	} {
		assert.False(t, plainConfig(text), text)
	}
}
