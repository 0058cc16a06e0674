package main

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/bits"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pureverbs/pureverbs/internal/gotext"
)

// enum is a type of enums.txt with its constants.
type enum struct {
	name, typ, prefix, c string
	flags, upper, texts  bool
	doc                  string
	consts               []*constant
}

// constant is a constant of an enum. Without a name it has no constant in Go, but is printed.
type constant struct {
	name, c, printed, comment string
	value                     int64
}

// constWord is a constant's name in C behind the enum's prefix, in Go, and its value; a name in quotes is printed.
var constWord = regexp.MustCompile(
	`^(?:(\w+)|([.-])(\w+))(?:=([A-Za-z]\w*|\d+_\d+\w*))?(?:=(-?\w+))?(?: "([^"]*)")?(?: |$)`)

// parseEnums reads enums.txt: the enums of each file.
func parseEnums(text string, values map[string]int64) (map[string][]*enum, error) {
	all, file := map[string][]*enum{}, ""
	var e *enum
	for i, line := range strings.Split(text, "\n") {
		bad := func(what string) error { return fmt.Errorf("enums.txt:%d: %s", i+1, what) }
		words, comment, commented := strings.Cut(strings.TrimSpace(line), "# ")
		switch {
		case words == "" && (!commented || line[0] == '#'):
		case strings.HasPrefix(line, "package "):
			dir, name, _ := strings.Cut(strings.TrimPrefix(line, "package "), " ")
			file, e = dir+"/"+cmp.Or(name, "enums")+"_gen.go", nil
		case line[0] != '\t':
			f := strings.Fields(words)
			if len(f) < 4 || file == "" {
				return nil, bad("want TYPE UNDERLYING PREFIX C-PREFIX after a package")
			}
			none := func(s string) string { return strings.TrimSuffix(s, "-") }
			e = &enum{name: f[0], typ: f[1], prefix: none(f[2]), c: none(f[3]), doc: comment}
			e.flags, e.upper = slices.Contains(f, "flags"), slices.Contains(f, "upper")
			e.texts = slices.Contains(f, "texts")
			all[file] = append(all[file], e)
		case e == nil:
			return nil, bad("no type")
		case words == "" && len(e.consts) == 0:
			e.doc += " " + comment
		case words == "":
			last := e.consts[len(e.consts)-1]
			last.comment = strings.TrimSpace(last.comment + " " + comment)
		default:
			for words = strings.TrimSpace(words); words != ""; {
				m := constWord.FindStringSubmatch(words)
				if m == nil {
					return nil, bad("no constant is " + words)
				}
				if err := e.add(m, values); err != nil {
					return nil, bad(err.Error())
				}
				words = words[len(m[0]):]
			}
			e.consts[len(e.consts)-1].comment = comment
		}
	}
	return all, nil
}

// add adds a constant.
func (e *enum) add(m []string, values map[string]int64) error {
	c := &constant{name: m[4], printed: m[6]}
	known := m[5] != ""
	if known {
		v, err := strconv.ParseInt(m[5], 0, 64)
		if err != nil {
			return err
		}
		c.value = v
	}
	short := m[3]
	if m[1] != "" {
		c.c, short = e.c+m[1], (&entry{}).goName(strings.ToLower(m[1]))
		if v, ok := values[c.c]; !known && ok {
			c.value, known = v, true
		}
	}
	if !known {
		return fmt.Errorf("%s has no value", m[0])
	}
	if !e.flags && c.value >= 1<<10 {
		return fmt.Errorf("%s is too large for a table of names", m[0])
	}
	switch {
	case m[2] == "-":
		c.name = ""
	case c.name == "":
		c.name = e.prefix + short
	case c.name[0] < 'a':
		short, c.name = c.name, e.prefix+c.name
	}
	if c.printed == "" {
		if c.printed = short; e.upper {
			c.printed = strings.ToUpper(short)
		}
	}
	e.consts = append(e.consts, c)
	return nil
}

// enumFile is the text of a Go file with enums.
func enumFile(name string, enums []*enum) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "package %s\n\nimport \"github.com/pureverbs/pureverbs/internal/flags\"\n",
		filepath.Base(filepath.Dir(name)))
	for _, e := range enums {
		b.WriteString("\n")
		e.write(&b)
	}
	return b.String()
}

func (e *enum) write(b *bytes.Buffer) {
	gotext.Paragraphs(b, strings.ReplaceAll(e.doc, " C: ", "\nC: "))
	fmt.Fprintf(b, "type %s %s\n\nconst (\n", e.name, e.typ)
	width := 0
	for _, c := range e.consts {
		width = max(width, len(c.name)+len(e.name)+len(e.literal(c.value)))
	}
	for _, c := range e.consts {
		if c.name == "" {
			continue
		}
		text, line := c.comment, fmt.Sprintf("%s %s = %s", c.name, e.name, e.literal(c.value))
		if c.c != "" {
			first, rest, more := strings.Cut(text, gotext.Experimental)
			if first != "" {
				first = strings.TrimSuffix(first, ".") + ". "
			}
			text = first + "C: " + c.c + "."
			if more {
				text += gotext.Experimental + rest
			}
		}
		above := strings.HasPrefix(strings.Replace(text, ":", " ", 1), c.name+" ")
		if above || width+len(text)+14 > 120 {
			gotext.Paragraphs(b, text)
		} else if text != "" {
			line += " // " + text
		}
		fmt.Fprintln(b, line)
	}
	b.WriteString(")\n\n")
	e.methods(b)
}

// methods writes the names, and what prints them.
func (e *enum) methods(b *bytes.Buffer) {
	printed, texts := map[int64]string{}, map[int64]string{}
	for _, c := range e.consts {
		at := c.value
		if e.flags {
			if bits.OnesCount64(uint64(at)) != 1 {
				continue // a set of flags
			}
			at = int64(bits.TrailingZeros64(uint64(at)))
		}
		printed[at], texts[at] = c.printed, c.comment
	}
	first := gotext.Unexported(e.name)
	table := func(name string, of map[int64]string) {
		fmt.Fprintf(b, "var %s%s = []string{", first, name)
		width, next := 0, int64(0)
		for _, v := range slices.Sorted(maps.Keys(of)) {
			item := strconv.Quote(of[v]) + ", "
			if v < 0 || of[v] == "" {
				continue
			} else if v != next {
				item = fmt.Sprintf("%d: %s", v, item)
			}
			if next = v + 1; width+len(item) > 80 {
				b.WriteString("\n")
				width = 0
			}
			b.WriteString(item)
			width += len(item)
		}
		b.WriteString("}\n\n")
	}
	table("Names", printed)
	if e.texts {
		table("Texts", texts)
	}
	if e.flags {
		fmt.Fprintf(b, "// String joins the names with \"|\".\nfunc (v %s) String() string "+
			"{ return flags.String(v, %sNames) }\n", e.name, first)
		return
	}
	example := e.consts[len(e.consts)/2]
	fmt.Fprintf(b, "// String returns the name, as in %q.\nfunc (v %s) String() string {\n", example.printed, e.name)
	if name := printed[-1]; name != "" {
		fmt.Fprintf(b, "if v == -1 {\nreturn %q\n}\n", name)
	}
	fmt.Fprintf(b, "return flags.Name(%q, int64(v), %sNames)\n}\n", e.name, first)
}

// literal is a value as Go has it.
func (e *enum) literal(v int64) string {
	switch u := uint64(v); {
	case !e.flags:
		return strconv.FormatInt(v, 10)
	case bits.OnesCount64(u) == 1:
		return fmt.Sprintf("1 << %d", bits.TrailingZeros64(u))
	default:
		return fmt.Sprintf("%#x", u)
	}
}
