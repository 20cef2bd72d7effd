package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/orch-dev/orch/bus/bustest"
)

// natspub0 is a client of somebody else at the NATS server of natsd:
//
//	natspub URLFILE make STREAM SUBJECT
//	natspub URLFILE consumers STREAM
//	natspub URLFILE SUBJECT COUNT
func natspub0(args []string) int {
	url, err := os.ReadFile(args[0])
	if err == nil {
		err = natspub(string(url), args[1:])
	}
	if err != nil {
		_, _ = os.Stderr.WriteString(err.Error())
		return 1
	}
	return 0
}

func natspub(url string, args []string) error {
	nc, err := bustest.ConnectPlain(url)
	if err != nil {
		return err
	}
	defer nc.Close()
	ask := func(subject, data string) (string, error) {
		m, err := nc.Request(subject, []byte(data), time.Minute)
		if err != nil {
			return "", err
		}
		var reply struct{ Error json.RawMessage }
		if err := json.Unmarshal(m.Data, &reply); err != nil || reply.Error != nil {
			return "", fmt.Errorf("%s: %s", subject, m.Data)
		}
		return string(m.Data), nil
	}
	switch args[0] {
	case "make":
		_, err = ask("$JS.API.STREAM.CREATE."+args[1], fmt.Sprintf(`{"name":%q,"subjects":[%q],"storage":"file","retention":"limits","num_replicas":1}`, args[1], args[2]))
		return err
	case "consumers":
		text, err := ask("$JS.API.CONSUMER.NAMES."+args[1], "")
		var reply struct{ Consumers []string }
		if err == nil {
			err = json.Unmarshal([]byte(text), &reply)
		}
		for _, name := range reply.Consumers {
			fmt.Println(name)
		}
		return err
	}
	count, err := strconv.Atoi(args[1])
	for i := range count {
		if _, err := ask(args[0], fmt.Sprintf(`{"id":%d}`, i)); err != nil {
			return err
		}
	}
	return err
}
