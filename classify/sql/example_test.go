package sql_test

import (
	"fmt"

	"github.com/orch-dev/orch/classify/sql"
)

// A statement is judged by the most that it does.
func ExampleClassify() {
	for _, query := range []string{"SELECT name FROM users", "WITH old AS (DELETE FROM users RETURNING *) SELECT * FROM old", "DROP TABLE users"} {
		c := sql.Classify(sql.Postgres, query)
		fmt.Println(c.Level == sql.Read, c.Verb, c.Reason)
	}
	// Output:
	// true SELECT SELECT
	// false WITH DELETE
	// false DROP DROP
}
