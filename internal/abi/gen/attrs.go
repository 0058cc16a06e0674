package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
)

// attr is a struct of attrs.txt. Without a C struct it is a part of another.
type attr struct {
	name, c, doc string
	fields       []*attrField
}

type attrField struct{ name, typ, from, comment string }

// parseAttrs reads attrs.txt: the structs of each file.
func parseAttrs(text string) (map[string][]*attr, error) {
	all, file := map[string][]*attr{}, ""
	var a *attr
	for i, line := range strings.Split(text, "\n") {
		words, comment, commented := strings.Cut(line, "# ")
		f := strings.Fields(words)
		switch {
		case len(f) == 0 && (!commented || line[0] == '#'):
		case strings.HasPrefix(line, "package "):
			file = f[1] + "/attrs_gen.go"
		case line[0] != '\t' && file != "":
			a = &attr{name: f[0], doc: comment}
			if len(f) > 1 {
				a.c = f[1]
			}
			all[file] = append(all[file], a)
		case a == nil:
			return nil, fmt.Errorf("attrs.txt:%d: no type", i+1)
		case len(f) == 0 && len(a.fields) == 0:
			a.doc += " " + comment
		case len(f) == 0:
			a.fields[len(a.fields)-1].comment += " " + comment
		case len(f) == 1:
			return nil, fmt.Errorf("attrs.txt:%d: %s has no type", i+1, f[0])
		default:
			from := f[0]
			if len(f) > 2 {
				from = f[2]
			}
			a.fields = append(a.fields, &attrField{f[0], f[1], from, comment})
		}
	}
	return all, nil
}

// attrFile is the text of a Go file with attributes.
func attrFile(name string, attrs []*attr) string {
	var b bytes.Buffer
	parts := map[string]*attr{}
	for _, a := range attrs {
		parts[a.name] = a
		paragraphs(&b, strings.ReplaceAll(a.doc, " C: ", "\nC: "))
		fmt.Fprintf(&b, "type %s struct {\n", a.name)
		for _, f := range a.fields {
			fmt.Fprintf(&b, "%s %s", f.name, f.typ)
			if f.comment != "" {
				fmt.Fprintf(&b, " // %s", f.comment)
			}
			b.WriteString("\n")
		}
		b.WriteString("}\n\n")
	}
	for _, a := range attrs {
		if a.c != "" {
			fmt.Fprintf(&b, "func %sFromC(c *abi.%s) *%s { return &%s }\n\n", unexported(a.name), a.c, a.name,
				a.literal("c", parts))
		}
	}
	body, imports := b.String(), ""
	for _, p := range []string{"time", module + "ibv", module + "internal/abi"} {
		if strings.Contains(body, filepath.Base(p)+".") {
			imports += fmt.Sprintf("%q\n", p)
		}
	}
	return fmt.Sprintf("package %s\n\nimport (\n%s)\n\n%s", filepath.Base(filepath.Dir(name)), imports, body)
}

// module begins the paths of packages.
const module = "github.com/pureverbs/pureverbs/"

// literal is the struct with what c has.
func (a *attr) literal(c string, parts map[string]*attr) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s{\n", a.name)
	for _, f := range a.fields {
		from := c + "." + f.from
		part := parts[f.typ]
		switch {
		case f.from == "-":
			continue
		case strings.Contains(f.from, "("):
			from = f.from
		case part != nil && f.from == ".":
			from = part.literal(c, parts)
		case part != nil:
			from = part.literal(from, parts)
		case f.typ == "bool":
			from += " != 0"
		case f.typ == "string":
			from = "cString(" + from + "[:])"
		default:
			from = f.typ + "(" + from + ")"
		}
		fmt.Fprintf(&b, "%s: %s,\n", f.name, from)
	}
	return b.String() + "}"
}
