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

// typed is a command as it goes to a shell: a mark with its exit status follows it.
func (c command) typed(i int) string {
	return fmt.Sprintf("%s\nprintf '\\036%d %%d\\n' $?\n", c.text, i)
}

// done reports whether command i has ended, by the output since it was typed, and printed all that it must. Lines may
// come later than its end: programs in the background also print.
func (c command) done(i int, output string) bool {
	_, ended := c.status(i, output)
	return ended && len(c.missing(output)) == 0
}

// status returns the exit status of command i.
func (c command) status(i int, output string) (status string, ended bool) {
	_, mark, ok := strings.Cut(output, "\036"+strconv.Itoa(i)+" ")
	if !ok {
		return "", false
	}
	status, _, ended = strings.Cut(mark, "\n")
	return status, ended
}

// missing returns the lines of the page that were not printed.
func (c command) missing(output string) (lines []string) {
	for _, w := range c.want {
		if !prints(output, w) {
			lines = append(lines, w)
		}
	}
	return lines
}

// judge returns what is wrong with command i, or "".
func (c command) judge(i int, output string) string {
	status, ended := c.status(i, output)
	var wrong string
	switch lines := c.missing(output); {
	case !ended:
		wrong = "it has not ended"
	case status != "0":
		wrong = "exit status " + status
	case len(lines) > 0:
		wrong = fmt.Sprintf("no line is %q", lines[0])
	default:
		return ""
	}
	return fmt.Sprintf("%v: %s. It printed\n%s", c, wrong, output)
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
	c := command{text: "a", want: []string{"x … z"}, block: block{page: &page{}}}
	for output, says := range map[string]string{
		"x y z\n\0367 0\n":        "",
		"\0367 0\nx y z\n":        "", // a command in the background
		"x y\n\0367 0\n":          "no line",
		"x y z a\n\0367 0\n":      "no line",
		"x y z\n\0367 3\n":        "exit status 3",
		"x y z\n\0366 0\nhangs\n": "not ended",
	} {
		if got := c.judge(7, output); got == "" != (says == "") || !strings.Contains(got, says) {
			t.Errorf("%q: %q, want %q", output, got, says)
		}
		if c.done(7, output) != (says == "" || strings.HasPrefix(says, "exit")) {
			t.Errorf("%q: done %v", output, c.done(7, output))
		}
	}
}
