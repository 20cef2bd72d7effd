package script_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/orch-dev/orch/models"
	"github.com/orch-dev/orch/models/script"
)

func ExampleNew() {
	provider, err := script.New(strings.NewReader(`
turns:
  - calls: [{tool: FILE_READ, args: {file_path: /w/shop.go}}]
  - expect: package shop
    text: It adds the prices.
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	r := models.Request{Messages: []models.Message{{Role: models.User, Parts: []models.Part{{Text: "What does it do?"}}}}}
	answer, err := provider.Stream(context.Background(), r, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	call := answer.Message.Parts[0].Call
	fmt.Println(call.Name, call.Args)

	r.Messages = append(r.Messages, answer.Message, models.Message{Role: models.User, Parts: []models.Part{
		{Result: &models.Result{ID: call.ID, Name: call.Name, Content: "package shop"}},
	}})
	answer, err = provider.Stream(context.Background(), r, func(d models.Delta) { fmt.Printf("%q ", d.Text) })
	fmt.Println(answer.Stop, err)
	// Output:
	// FILE_READ {"file_path":"/w/shop.go"}
	// "It" " adds" " the" " prices." end <nil>
}
