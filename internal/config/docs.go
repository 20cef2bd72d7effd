package config

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Docs returns the table of settings as text for a terminal.
func Docs() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tVARIABLE\tFLAG\tDEFAULT\tMEANING")
	for _, k := range Keys() {
		fmt.Fprintf(w, "%s\t%s\t--%s\t%s\t%s\n", k.Name, k.Env(), k.Flag(), orDash(k.Default), k.meaning())
	}
	_ = w.Flush() // a strings.Builder never fails
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
	return k.Usage + ": " + strings.Join(k.Choices, ", ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
