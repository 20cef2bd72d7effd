package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/orch-dev/orch/api"
	"github.com/orch-dev/orch/cmd/orch/screen"
	"github.com/orch-dev/orch/events"
	"github.com/orch-dev/orch/fault"
	"github.com/orch-dev/orch/statemachine"
)

func newQuestions(c *approvalCommands) *cobra.Command {
	return &cobra.Command{
		Use:   "questions [TASK | ID]",
		Short: "List what running calls ask, or show one question",
		Long: `List the questions of running calls that are open, those of all tasks or of one, or show one question with its
form. A call that asks holds no worker; it goes on when all that it asks is answered.`,
		Example:           "  orch questions\n  orch questions @last",
		Args:              takes("[TASK | ID]"),
		ValidArgsFunction: c.completeIDs(1),
		RunE:              func(cmd *cobra.Command, args []string) error { return c.questions(cmd.Context(), args) },
	}
}

func (c *approvalCommands) questions(ctx context.Context, args []string) error {
	return c.with(ctx, idle, func(s session) error {
		r, err := c.questionsRequest(ctx, s, args)
		if err != nil {
			return err
		}
		reply, err := s.Questions(ctx, r)
		if err != nil {
			return err
		}
		if reply.Unread > 0 {
			c.note("%d tasks cannot be read yet; their questions are missing here", reply.Unread)
		}
		if reply.Omitted > 0 {
			c.note("%d more are not shown; name a task to see its questions", reply.Omitted)
		}
		if r.ID != "" {
			return c.showQuestion(reply.Questions[0])
		}
		return c.listQuestions(reply.Questions)
	})
}

func (c *approvalCommands) questionsRequest(ctx context.Context, s session, args []string) (api.QuestionsRequest, error) {
	if len(args) == 0 {
		return api.QuestionsRequest{}, nil
	}
	if _, err := events.TaskOfQuestion(args[0]); err == nil {
		return api.QuestionsRequest{ID: args[0]}, nil
	}
	id, err := c.find(ctx, s, args[0])
	return api.QuestionsRequest{Task: id}, err
}

func (c *approvalCommands) listQuestions(list []api.QuestionView) error {
	var names []string
	for _, q := range list {
		names = append(names, q.ID)
	}
	return c.emit(view{data: list, rows: rowsOf(list), names: names, text: func(w io.Writer) error {
		if len(list) == 0 {
			return writeLines(w, []string{"nothing asks"})
		}
		var table screen.Table
		table.Row("QUESTION", "KIND", "EXPIRES", "WHO", "WHAT")
		for _, q := range list {
			table.Row(q.ID, q.Kind, dueText(c.now(), q.ExpiresAt), q.Tool+" in "+q.TaskName+"/"+q.Step, message(q))
		}
		return table.Write(w, c.width())
	}})
}

// message returns the text of a question. For an MCP sampling request, it is the last text of its messages. A question without a
// text is represented by its key.
func message(q api.QuestionView) string {
	var p struct {
		Message  string `json:"message"`
		Messages []struct {
			Content json.RawMessage `json:"content"`
		} `json:"messages"`
	}
	if json.Unmarshal(q.Params, &p) != nil {
		return q.Key
	}
	if last := len(p.Messages) - 1; p.Message == "" && last >= 0 {
		p.Message = lastText(p.Messages[last].Content)
	}
	return cmp.Or(p.Message, q.Key)
}

// lastText returns the last text in the content of a message, which is one block or a list of blocks.
func lastText(content json.RawMessage) string {
	type block struct {
		Text string `json:"text"`
	}
	var one block
	if json.Unmarshal(content, &one) == nil {
		return one.Text
	}
	var several []block
	if json.Unmarshal(content, &several) != nil || len(several) == 0 {
		return ""
	}
	return several[len(several)-1].Text
}

func (c *approvalCommands) showQuestion(q api.QuestionView) error {
	return c.emit(view{data: q, names: []string{q.ID}, text: func(w io.Writer) error {
		return writeLines(w, questionLines(q))
	}})
}

// questionLines returns a complete description of a question.
func questionLines(q api.QuestionView) []string {
	lines := []string{q.ID + "  " + string(q.Status)}
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, fmt.Sprintf("  %-12s %s", name, screen.Escape(value)))
		}
	}
	add("task", string(q.Task)+" ("+q.TaskName+")")
	add("step", q.Step)
	add("tool", q.Tool)
	add("name", q.Key)
	add("kind", q.Kind)
	add("expires", q.ExpiresAt.Format(time.RFC3339))
	add("answered by", q.AnsweredBy)
	add("action", q.Action)
	add("reason", q.Reason)
	form := formOf(q)
	lines = append(append(lines, "  asks:"), indented(askedLines(q, form != nil))...)
	if form != nil {
		lines = append(lines, "  form:")
		for _, line := range propertyLines(form) {
			lines = append(lines, "  "+line)
		}
	}
	if q.Status != statemachine.QuestionOpen {
		return lines
	}
	hint := "answer: orch answer " + q.ID + " --json '{…}' | --decline"
	if q.Kind == events.Elicitation {
		hint = "answer: orch answer " + q.ID + " --accept" + exampleArgs(form) + " | --decline"
	}
	return append(lines, "", hint)
}

// formOf returns the schema of the fields that a question asks for; nil if it asks for none.
func formOf(q api.QuestionView) json.RawMessage {
	var p struct {
		Schema json.RawMessage `json:"requestedSchema"`
	}
	if q.Kind != events.Elicitation || json.Unmarshal(q.Params, &p) != nil || len(propertyOrder(p.Schema)) == 0 {
		return nil
	}
	return p.Schema
}

// askedLines returns the parameters of a question. If form is set, it leaves out the form, which is shown separately.
func askedLines(q api.QuestionView, form bool) []string {
	if !form {
		return screen.Object(q.Params)
	}
	return strings.Split(screen.EscapeLines("message: "+message(q)), "\n")
}

// answerOptions are the flags of `orch answer`.
type answerOptions struct {
	accept, decline bool
	json            string
}

func newAnswer(c *approvalCommands) *cobra.Command {
	var o answerOptions
	cmd := &cobra.Command{
		Use:   "answer ID|TASK --accept [name=value...] | --json RESULT | --decline",
		Short: "Answer a question of a running call",
		Long: `Answer a question of a running call: accept, with the fields of its form as name=value, decline, or give the whole
result of the MCP request as JSON. The first answer is final. A task stands for the only open question of it and of its children.`,
		Example: "  orch answer ASK_01JD0000000000000000000000_AAAAAAAA --accept name=Ada\n  orch answer @last --decline",
		Args:    takes("ID", "[name=value...]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(len(args) > 1); err != nil {
				return err
			}
			return c.answer(cmd.Context(), args, o)
		},
	}
	cmd.Flags().BoolVar(&o.accept, "accept", false, "accept, with the fields of the form")
	cmd.Flags().BoolVar(&o.decline, "decline", false, "give no answer")
	cmd.Flags().StringVar(&o.json, "json", "", "the result as JSON, such as {\"action\":\"cancel\"}")
	return cmd
}

// check returns an error if flags exclude each other. fields is set if the command line contains fields.
func (o answerOptions) check(fields bool) error {
	chosen := 0
	for _, given := range []bool{o.accept, o.decline, o.json != ""} {
		if given {
			chosen++
		}
	}
	if chosen != 1 || (fields && !o.accept) {
		return fault.New(fault.InvalidParams, "give one of --accept, --json and --decline; fields go with --accept")
	}
	return nil
}

func (c *approvalCommands) answer(ctx context.Context, args []string, o answerOptions) error {
	return c.with(ctx, idle, func(s session) error {
		id, err := c.questionID(ctx, s, args[0])
		if err != nil {
			return err
		}
		r := api.AnswerRequest{Question: id, Declined: o.decline, Actor: c.actor()}
		switch {
		case o.accept:
			r.Response, err = accepted(ctx, s, id, args[1:])
		case o.json != "":
			r.Response, err = parseJSON("--json", o.json)
		}
		if err != nil {
			return err
		}
		t, err := s.Answer(ctx, r)
		if err != nil {
			return err
		}
		return c.emit(view{data: t, names: []string{string(t.ID)}, text: func(w io.Writer) error {
			return writeLines(w, []string{fmt.Sprintf("%s is answered; task %s is %s", id, t.ID, t.State)})
		}})
	})
}

// accepted returns the MCP result that accepts an elicitation. The values of fields are parsed with the types of the form.
func accepted(ctx context.Context, s session, id string, fields []string) (json.RawMessage, error) {
	reply, err := s.Questions(ctx, api.QuestionsRequest{ID: id})
	if err != nil {
		return nil, err
	}
	var asked struct {
		Mode   string          `json:"mode"`
		Schema json.RawMessage `json:"requestedSchema"`
	}
	if err := json.Unmarshal(reply.Questions[0].Params, &asked); err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the question cannot be read")
	}
	result := map[string]any{"action": "accept"}
	if asked.Mode != "url" {
		if result["content"], err = parsePairs(fields, readSchema(asked.Schema), "argument", asText); err != nil {
			return nil, err
		}
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the answer cannot be encoded")
	}
	return raw, nil
}
