package docs

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
)

// command is a command of a page, and lines that it must print before the page ends.
type command struct {
	block block
	line  int // in the page, from 1
	text  string
	want  []string
}

func (c command) String() string { return fmt.Sprintf("%s:%d: %s", c.block.page.path, c.line, c.text) }

// commands returns the commands of a block.
func (b block) commands() ([]command, error) {
	var out []command
	more := false // the last line ended with a backslash
	for i := b.first; i < b.last; i++ {
		line := b.page.lines[i]
		text, prompt := strings.CutPrefix(line, "$ ")
		switch {
		case more:
			out[len(out)-1].text += "\n" + line
		case b.lang == "console" && !prompt:
			if len(out) == 0 {
				return nil, fmt.Errorf("%s:%d: output before the first command", b.page.path, i+1)
			}
			if s := strings.TrimSpace(line); s != "" && s != "…" {
				out[len(out)-1].want = append(out[len(out)-1].want, line)
			}
			continue
		case b.lang != "console" && prompt:
			return nil, fmt.Errorf("%s:%d: a prompt in a block of %s: call it console", b.page.path, i+1, b.lang)
		case strings.TrimSpace(text) == "" || strings.HasPrefix(text, "#"):
			continue
		default:
			out = append(out, command{block: b, line: i + 1, text: text})
		}
		more = strings.HasSuffix(line, "\\")
	}
	return out, nil
}

// script is commands as one goes to a shell that may run further shells, each followed by a mark with its exit status.
func script(commands []command) string {
	var out strings.Builder
	for i, c := range commands {
		fmt.Fprintf(&out, "%s\nprintf '\\036%d %%d\\n' $?\n", c.text, i)
	}
	return out.String()
}

// judge compares the output of a script with what its commands must do.
func judge(commands []command, output string) (bad []string) {
	rest := output
	for i, c := range commands {
		after := rest // all that was printed once the command had begun
		printed, mark, ok := strings.Cut(rest, "\036"+strconv.Itoa(i)+" ")
		if !ok {
			return append(bad, fmt.Sprintf("%v: it has not ended. It printed\n%s", c, rest))
		}
		status, next, _ := strings.Cut(mark, "\n")
		if status != "0" {
			bad = append(bad, fmt.Sprintf("%v: exit status %s. It printed\n%s", c, status, printed))
		}
		for _, w := range c.want {
			if !prints(after, w) {
				bad = append(bad, fmt.Sprintf("%v: no line is %q. It printed\n%s", c, w, printed))
			}
		}
		rest = next
	}
	return bad
}

// prints reports whether a line is in the output.
func prints(output, want string) bool {
	for line := range strings.Lines(output) {
		if matches(strings.TrimRight(line, " \n"), strings.TrimRight(want, " ")) {
			return true
		}
	}
	return false
}

// matches compares a line with one in which "…" stands for anything.
func matches(line, want string) bool {
	parts := strings.Split(want, "…")
	if len(parts) == 1 {
		return line == want
	}
	line, ok := strings.CutPrefix(line, parts[0])
	if !ok {
		return false
	}
	for _, p := range parts[1 : len(parts)-1] {
		if _, line, ok = strings.Cut(line, p); !ok {
			return false
		}
	}
	return strings.HasSuffix(line, parts[len(parts)-1])
}

func TestCommands(t *testing.T) {
	bs, err := parsePage("x.md",
		"```console\n$ a \\\n  b\nout\n\n$ c   # why\n…\n```\n```sh\n# comment\na\nb &\n```").blocks()
	if err != nil {
		t.Fatal(err)
	}
	var got []command
	for _, b := range bs {
		cs, err := b.commands()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, cs...)
	}
	want := []string{"x.md:2: a \\\n  b [out]", "x.md:6: c   # why []", "x.md:11: a []", "x.md:12: b & []"}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || fmt.Sprint(got[i], " ", got[i].want) != want[i] {
			t.Fatalf("%v, want %q", got, want)
		}
	}
	for _, wrong := range []string{"```sh\n$ a\n```", "```console\nout\n```"} {
		bs, _ := parsePage("x.md", wrong).blocks()
		if _, err := bs[0].commands(); err == nil {
			t.Errorf("%q has no error", wrong)
		}
	}
}

func TestJudge(t *testing.T) {
	p := parsePage("x.md", "```console\n$ a\nx … z\n$ b\n```")
	bs, err := p.blocks()
	if err != nil {
		t.Fatal(err)
	}
	cs, err := bs[0].commands()
	if err != nil {
		t.Fatal(err)
	}
	for output, bad := range map[string]int{
		"x y z\n\0360 0\n\0361 0\n":     0,
		"\0360 0\nx y z\n\0361 0\n":     0, // a command in the background
		"x y\n\0360 0\n\0361 0\n":       1,
		"x y z\n\0360 3\n\0361 0\n":     1,
		"x y z\n\0360 3\nx\n\0361 1\n":  2,
		"x y z\n\0360 0\nhangs\n":       1,
		"x y z y\n\0360 0\nx\n\0361 0":  1,
		"a x y z\n\0360 0\n\0361 127\n": 2,
	} {
		if got := judge(cs, output); len(got) != bad {
			t.Errorf("%q: %q, want %d complaints", output, got, bad)
		}
	}
}
