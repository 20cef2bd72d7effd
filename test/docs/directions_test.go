package docs_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// directions are what the test of a page has to know that the page does not say.
type directions struct {
	// Needs are programs of test/need/programs.txt.
	Needs []string `yaml:"needs"`
	// NATS starts a NATS server beside the node; its address is in $NATS_URL.
	NATS bool `yaml:"nats"`
	// Setup are commands that make what the page presumes.
	Setup string `yaml:"setup"`
	// Values stand for placeholders in the commands of the page.
	Values map[string]string `yaml:"values"`
	// Varies are texts in the output that the page shows which differ from run to run.
	Varies []string `yaml:"varies"`
	// Languages are those whose blocks are left out where nothing else is said, with the reason.
	Languages map[string]string `yaml:"languages"`
	// At says what is special about single units, in their order.
	At []direction `yaml:"at"`
}

// direction says what is special about a unit: the next one whose first line begins with Unit.
type direction struct {
	Unit string `yaml:"unit"`
	// LeftOut is the reason why the unit is not run, or with Block all units of its block.
	LeftOut string `yaml:"left out"`
	Block   bool   `yaml:"block"`
	// Before and After are commands that are run before and after it.
	Before string `yaml:"before"`
	After  string `yaml:"after"`
	// Meanwhile are commands that are run while the unit runs, as in another terminal.
	Meanwhile string `yaml:"meanwhile"`
	// Background leaves a command running until the end of the page. Meanwhile waits until it is ready.
	Background bool `yaml:"background"`
	// Input is what the command reads. With Terminal it runs in a terminal, where a person types that.
	Input    string `yaml:"input"`
	Terminal bool   `yaml:"terminal"`
	// Fails is the exit code of a command that fails.
	Fails int `yaml:"fails"`
	// Shows are texts in the output of a command that the page promises in its sentences.
	Shows []string `yaml:"shows"`
	// Values stand for placeholders in this unit.
	Values map[string]string `yaml:"values"`
	// File is the name of a block that is written to a file, Head a text before it there.
	File string `yaml:"file"`
	Head string `yaml:"head"`
	// From are the commands whose output the block shows, if they are not those above it.
	From string `yaml:"from"`
}

// act is a unit with what is special about it.
type act struct {
	unit
	direction
}

// readDirections reads those of a page.
func readDirections(page string) (directions, error) {
	var d directions
	text, err := os.ReadFile(directionsOf(page))
	if err != nil {
		return d, err
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	return d, decoder.Decode(&d)
}

// directionsOf returns the file with the directions of a page.
func directionsOf(page string) string {
	return filepath.Join("testdata", strings.TrimSuffix(strings.TrimPrefix(page, "docs/"), ".md")+".yaml")
}

// direct joins the units of a page with the directions, each of which is about one of them.
func direct(units []unit, d directions) ([]act, error) {
	acts := make([]act, len(units))
	for i, u := range units {
		acts[i].unit = u
	}
	from := 0
	for _, one := range d.At {
		i := from
		for i < len(units) && !strings.HasPrefix(units[i].head(), one.Unit) {
			i++
		}
		if i == len(units) || one.Unit == "" {
			return nil, fmt.Errorf("after line %d of the page nothing begins with %q", lineBefore(units, from), one.Unit)
		}
		acts[i].direction = one
		from = i + 1
		for ; one.Block && from < len(units) && units[from].block == units[i].block; from++ {
			acts[from].direction = one
		}
	}
	for i := range acts {
		if acts[i].kind == other && acts[i].Unit == "" {
			acts[i].LeftOut = d.Languages[acts[i].language]
		}
		if err := acts[i].complete(); err != nil {
			return nil, err
		}
	}
	return acts, nil
}

func lineBefore(units []unit, next int) int {
	if next == 0 {
		return 0
	}
	return units[next-1].line
}

// complete makes a file of an act whose direction names one, and reports a block about which nothing is said.
func (a *act) complete() error {
	if a.File != "" {
		a.kind, a.name = file, a.File
	}
	if a.kind == other && a.LeftOut == "" {
		return fmt.Errorf("line %d: the block is neither run nor written: give it the name of a file in its first line, or `file` or `left out` in the directions: %s", a.line, a.head())
	}
	return nil
}
