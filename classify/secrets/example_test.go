package secrets_test

import (
	"fmt"

	"github.com/orch-dev/orch/classify/secrets"
)

// Find says where a text holds a credential, and by which rule.
func ExampleFind() {
	text := []byte("deploy with AKIA" + "Z7VQXKTN3RPW5LM2 tomorrow")
	for _, f := range secrets.Find(text) {
		fmt.Println(f.Rule, f.Offset, f.Length)
	}
	// Output: aws_access_token 12 20
}

func ExampleClean() {
	fmt.Println(secrets.Clean("login with AKIA" + "Z7VQXKTN3RPW5LM2"))
	fmt.Println(secrets.Clean("nothing to hide"))
	// Output:
	// login with [REDACTED:aws_access_token]
	// nothing to hide
}

// URL hides the password of an address.
func ExampleURL() {
	fmt.Println(secrets.URL("postgres://ada:hunter2@db.example.com/shop"))
	// Output: postgres://ada:xxxxx@db.example.com/shop
}
