package configs

import (
	"errors"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/alecthomas/kong"
	"go.yaml.in/yaml/v3"

	"hermes/internal/address"
)

// freeText holds the options and arguments whose text is for a model, a tool, a program or a
// reader of tables, and is not read as an address, with what it is.
func freeText() map[string]string {
	return map[string]string{
		"chat.--query": "what is asked",

		"sandbox exec.<command>": "a command",
		"tools run.<json>":       "arguments of a tool",
	}
}

// CheckAddresses refuses options and arguments of a command line with an address that
// [address.Check] refuses, whichever layer they come from. An option that is new is looked at.
func CheckAddresses(ctx *kong.Context) error {
	var errs []error
	command := ""
	if node := ctx.Selected(); node != nil {
		command = strings.TrimPrefix(node.Path(), "hermes ")
		if i := strings.IndexAny(command, "<["); i >= 0 {
			command = strings.TrimSpace(command[:i])
		}
	}
	look := func(name string, v *kong.Value) {
		if FreeText(command + "." + name) {
			return
		}
		for _, text := range texts(v.Target) {
			if err := address.Check(name, text); err != nil {
				errs = append(errs, err)
			}
		}
	}
	for _, f := range ctx.Flags() {
		look("--"+f.Name, f.Value)
	}
	for _, p := range ctx.Path {
		if p.Positional != nil {
			look("<"+p.Positional.Name+">", p.Positional)
		}
	}
	return errors.Join(errs...)
}

// fetched lists the keys of sections that are the address of a file which others fetch, with a
// query that says how.
func fetched() []string { return []string{"backends.nomad.artifact"} }

// texts lists the texts of an option, also those of a list or a mapping.
func texts(v reflect.Value) []string {
	var out []string
	switch v.Kind() {
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			out = append(out, texts(v.Index(i))...)
		}
	case reflect.Map:
		for _, k := range v.MapKeys() {
			out = append(out, texts(v.MapIndex(k))...)
		}
	default:
		out = append(out, Text(v))
	}
	return out
}

// noAddresses refuses addresses of a section that [address.Check] refuses, or of files that
// others fetch [address.CheckFetched].
func (d *Document) noAddresses(path string, n *yaml.Node) error {
	var errs []error
	for i, c := range n.Content {
		at := path
		if n.Kind == yaml.MappingNode && i%2 == 1 {
			at += "." + n.Content[i-1].Value
		}
		errs = append(errs, d.noAddresses(at, c))
	}
	if n.Kind == yaml.ScalarNode {
		check := address.Check
		if slices.Contains(fetched(), path) {
			check = address.CheckFetched
		}
		if err := check(path, n.Value); err != nil {
			errs = append(errs, &Error{File: d.File, Line: n.Line, Msg: err.Error()})
		}
	}
	return errors.Join(errs...)
}

// FreeText reports whether an option or argument, written as "COMMAND.--FLAG" or
// "COMMAND.<ARGUMENT>", is for other readers and may hold any URL.
func FreeText(place string) bool { _, free := freeText()[place]; return free }

// FreeTexts lists those places.
func FreeTexts() []string { return slices.Sorted(maps.Keys(freeText())) }
