package db

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/orch-dev/orch/tools"
)

// The effect of a literal statement follows from the kind of its database.
func TestEffectOfStatements(t *testing.T) {
	t.Parallel()
	const host = "postgresql://user@db.example.com:5432/app"
	for _, c := range []struct {
		in   databaseQueryIn
		want tools.Effect
	}{
		{databaseQueryIn{ConnectionString: host, Query: "SELECT 1"}, tools.Read},
		{databaseQueryIn{ConnectionString: host, Query: "UPDATE a SET b = 1"}, tools.Write},
		{databaseQueryIn{ConnectionString: host, Query: "DROP TABLE a"}, tools.Destructive},
		{databaseQueryIn{ConnectionString: host}, ""},
		{databaseQueryIn{Query: "SELECT 1"}, ""},
		{databaseQueryIn{ConnectionString: secretScheme + "main", Query: "SELECT 1"}, ""},
	} {
		assert.Equal(t, c.want, c.in.effect(), "%+v", c.in)
	}
}
