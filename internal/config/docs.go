package config

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Docs returns the table of settings as text for a terminal.
func Docs() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(cells ...string) { _, _ = io.WriteString(w, strings.Join(cells, "\t")+"\n") } // a strings.Builder never fails
	row("KEY", "VARIABLE", "FLAG", "DEFAULT", "MEANING")
	for _, k := range Keys() {
		row(k.Name, k.Env(), "--"+k.Flag(), orDash(k.Default), k.meaning())
	}
	_ = w.Flush() // nor does this
	return b.String()
}

// Markdown returns the same table for the documentation.
func Markdown() string {
	var b strings.Builder
	b.WriteString("| key | variable | flag | default | meaning |\n|---|---|---|---|---|\n")
	for _, k := range Keys() {
		fmt.Fprintf(&b, "| `%s` | `%s` | `--%s` | %s | %s |\n", k.Name, k.Env(), k.Flag(), orDash(k.Default), k.meaning())
	}
	return b.String()
}

func (k Key) meaning() string {
	if k.Choices == nil {
		return k.Usage
	}
	return k.Usage + ": " + strings.Join(k.Named(), ", ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
