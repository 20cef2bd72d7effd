package agents_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/orch-dev/orch/agents"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
)

// fakeCredentials creates credentials and counts them.
type fakeCredentials struct {
	agents.Credentials

	made int
}

func (o *fakeCredentials) Enrol(_ context.Context, in agents.Registration) (agents.Member, string, error) {
	o.made++
	return agents.Member{Profile: in.Profile, Name: in.Name, Key: "key"}, "secret", nil
}

// No agent is registered if its secret could not be stored for collection.
func TestSecretsThatNobodyCollects(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o := &fakeCredentials{}
	r := agents.NewRegistry(agents.Config{Credentials: o, Clock: func() time.Time { return now }})
	register := func(i int) error {
		_, err := r.Register(t.Context(), agents.Registration{
			Name: "ada", Task: events.TaskID(strconv.Itoa(i)), By: "user:ada",
			Profile: agents.Profile{
				Type: "developer", Version: "1.0.0", MaxTasks: 1, Timeout: time.Second, Capabilities: []agents.Capability{{Name: "a", Category: "b"}},
			},
		})
		return err
	}
	const most = 1000
	for i := range most {
		require.NoError(t, register(i))
	}
	assert.Equal(t, fault.QuotaExceeded, fault.CodeOf(register(most)))
	assert.Equal(t, most, o.made)
	got, err := r.Collect(t.Context(), agents.Collection{Task: "0", By: "user:ada"})
	require.NoError(t, err)
	assert.Equal(t, agents.Collected{Key: "key", Secret: "secret"}, got)
	require.NoError(t, register(most))
	now = now.Add(11 * time.Minute)
	require.NoError(t, register(most+1), "what was not collected is forgotten")
}

// several enrols agents with ids and secrets of their own.
type several struct{ agents.Credentials }

func (several) Enrol(_ context.Context, in agents.Registration) (agents.Member, string, error) {
	in.Profile.ID = "agent-" + in.Name
	return agents.Member{Profile: in.Profile, Name: in.Name, Key: "key"}, "secret of " + in.Name, nil
}

// A task that registers several agents can collect the secret of each, but only by agent id.
func TestSecretsOfOneTask(t *testing.T) {
	t.Parallel()
	r := agents.NewRegistry(agents.Config{Credentials: several{}})
	for _, name := range []string{"ada", "bob"} {
		_, err := r.Register(t.Context(), agents.Registration{Name: name, Task: "1", By: "user:ada", Profile: profile(nil)})
		require.NoError(t, err)
	}
	_, err := r.Collect(t.Context(), agents.Collection{Task: "1", By: "user:ada"})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	_, err = r.Collect(t.Context(), agents.Collection{Task: "1", Agent: "agent-ada", By: "user:eve"})
	assert.Equal(t, fault.NotFound, fault.CodeOf(err))
	got, err := r.Collect(t.Context(), agents.Collection{Task: "1", Agent: "agent-ada", By: "user:ada"})
	require.NoError(t, err)
	assert.Equal(t, "secret of ada", got.Secret)
	got, err = r.Collect(t.Context(), agents.Collection{Task: "1", By: "user:ada"})
	require.NoError(t, err)
	assert.Equal(t, "secret of bob", got.Secret, "one is left")
}
