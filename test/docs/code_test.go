package docs

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "copy the code into the pages")

// sources are the folders with code of the pages.
var sources = []string{"test/docs/code", "test/docs/testdata", "examples", "deploy"}

var (
	begin = regexp.MustCompile(`^\s*(?://|#) doc: (\S+)$`)
	end   = regexp.MustCompile(`^\s*(?://|#) end$`)
)

// pieces adds the regions of a file to the ones that are known.
func pieces(into map[string][]string, name, text string) error {
	open, at := "", 0
	var lines []string
	for i, line := range strings.Split(text, "\n") {
		b := begin.FindStringSubmatch(line)
		switch {
		case b != nil && open != "":
			return fmt.Errorf("%s:%d: %s begins within %s of line %d", name, i+1, b[1], open, at)
		case b != nil:
			open, at, lines = b[1], i+1, nil
		case open != "" && end.MatchString(line):
			into[open] = append(into[open], dedent(lines))
			open = ""
		case open != "":
			lines = append(lines, line)
		}
	}
	if open != "" {
		return fmt.Errorf("%s:%d: %s does not end", name, at, open)
	}
	return nil
}

// dedent removes the indentation that all lines have, and joins them.
func dedent(lines []string) string {
	var common string
	first := true
	for _, l := range lines {
		if l == "" {
			continue
		}
		indent := l[:len(l)-len(strings.TrimLeft(l, " \t"))]
		if first {
			common, first = indent, false
		}
		for !strings.HasPrefix(indent, common) {
			common = common[:len(common)-1]
		}
	}
	var out strings.Builder
	for _, l := range lines {
		out.WriteString(strings.TrimPrefix(l, common) + "\n")
	}
	return strings.Trim(out.String(), "\n") + "\n"
}

// withoutMarks returns a file without the lines that mark regions.
func withoutMarks(text string) string {
	var out strings.Builder
	blank := false
	for line := range strings.Lines(text) {
		mark := strings.TrimSuffix(line, "\n")
		if begin.MatchString(mark) || end.MatchString(mark) || line == "\n" && blank {
			continue
		}
		blank = line == "\n"
		out.WriteString(line)
	}
	return out.String()
}

// regions returns all named regions of the sources.
func regions(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, s := range sources {
		err := filepath.WalkDir(filepath.Join(repository, s), func(file string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) && d == nil {
				return nil
			}
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			return pieces(out, file, string(text))
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// wholeFile reports whether a name is that of a file, and returns its path in the repository.
func wholeFile(name string) (string, bool) {
	if path.Ext(name) == "" {
		return "", false
	}
	for _, dir := range []string{"test/docs/code", "test/docs/testdata", ""} {
		if _, err := os.Stat(filepath.Join(repository, dir, name)); err == nil {
			return path.Join(dir, name), true
		}
	}
	return name, true
}

// code returns the text that a block must have.
func code(known map[string][]string, name string) (string, error) {
	if file, whole := wholeFile(name); whole {
		text, err := os.ReadFile(filepath.Join(repository, file))
		return withoutMarks(string(text)), err
	}
	if known[name] == nil {
		return "", fmt.Errorf("no %q: mark it by \"// doc: %s\" and \"// end\" below %s", name, name,
			strings.Join(sources, ", "))
	}
	return strings.Join(known[name], ""), nil
}

// unmarked returns why a block must not be there as it is, or "".
func unmarked(b block) string {
	switch {
	case b.directives["code"] != "":
	case b.directives["tested"] != "":
		return untested(b)
	case b.shell():
	case b.lang == "text" || b.lang == "mermaid":
		if d := b.directives["not run"]; d != "" {
			return "only commands are not run"
		}
	case b.lang == "go" || b.directives["not run"] == "":
		return "a block of " + b.lang + " without <!-- code: NAME -->, see test/docs/doc.go"
	}
	return ""
}

// untested returns why the package that a block names does not test it: none of its files names the page.
func untested(b block) string {
	dir := b.directives["tested"]
	files, err := filepath.Glob(filepath.Join(repository, dir, "*_test.go"))
	if err != nil {
		return err.Error()
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			return err.Error()
		}
		if strings.Contains(string(text), b.page.path) {
			return ""
		}
	}
	return dir + " has no test that reads the page"
}

// TestCode compares the code of pages with the files that are compiled. With -update it copies the code.
func TestCode(t *testing.T) {
	known := regions(t)
	used := map[string]bool{}
	for _, p := range codePages(t) {
		changed := false
		bs := blocksOf(t, p)
		slices.Reverse(bs) // a longer block moves those behind it
		for _, b := range bs {
			if why := unmarked(b); why != "" {
				t.Errorf("%v: %s", b, why)
			}
			name := b.directives["code"]
			if name == "" {
				continue
			}
			used[name] = true
			want, err := code(known, name)
			if err != nil {
				t.Errorf("%v: %v", b, err)
				continue
			}
			if b.text() == want {
				continue
			}
			if !*update {
				t.Errorf("%v: the code is not %s any more: go test ./test/docs -update", b, name)
				continue
			}
			lines := strings.Split(strings.TrimSuffix(want, "\n"), "\n")
			p.lines = slices.Replace(p.lines, b.first, b.last, lines...)
			changed = true
		}
		if changed {
			file := filepath.Join(repository, p.path)
			if err := os.WriteFile(file, []byte(strings.Join(p.lines, "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name := range known {
		if !used[name] && !strings.HasPrefix(name, "readme-") {
			t.Errorf("no page has the region %s", name)
		}
	}
}

func TestPieces(t *testing.T) {
	got := map[string][]string{}
	err := pieces(got, "x.go",
		"a\n\t// doc: one\n\tx {\n\n\t\ty\n\t}\n\t// end\nb\n  # doc: two\n  k: v\n  # end\n"+
			"// doc: one\nz\n// end\n")
	if err != nil || len(got["one"]) != 2 || got["one"][0] != "x {\n\n\ty\n}\n" || got["one"][1] != "z\n" ||
		len(got["two"]) != 1 || got["two"][0] != "k: v\n" {
		t.Errorf("%q, %v", got, err)
	}
	if got := withoutMarks("a\n\n// doc: x\nb\n\n// end\n\nc\n"); got != "a\n\nb\n\nc\n" {
		t.Errorf("without marks: %q", got)
	}
	for _, wrong := range []string{"// doc: a\n// doc: b\n// end\n", "// doc: a\n"} {
		if err := pieces(map[string][]string{}, "x.go", wrong); err == nil {
			t.Errorf("%q has no error", wrong)
		}
	}
}

func TestUnmarked(t *testing.T) {
	for _, tc := range []struct {
		page string
		bad  bool
	}{
		{"```go\nx\n```", true},
		{"<!-- not run: why -->\n```go\nx\n```", true},
		{"<!-- code: x -->\n```go\nx\n```", false},
		{"<!-- code: x -->\n\n```go\nx\n```", true},
		{"```yaml\nx\n```", true},
		{"<!-- not run: needs a cluster -->\n```yaml\nx\n```", false},
		{"```sh\nx\n```", false},
		{"```text\nx\n```", false},
		{"```\nx\n```", true},
		{"<!-- tested: test/kube -->\n```sh\nx\n```", true},
	} {
		bs, err := parsePage("x.md", tc.page).blocks()
		if err != nil || len(bs) != 1 {
			t.Fatalf("%q: %v, %v", tc.page, bs, err)
		}
		if why := unmarked(bs[0]); (why != "") != tc.bad {
			t.Errorf("%q: %q, want an error %v", tc.page, why, tc.bad)
		}
	}
}

// outputOf returns what a program must print, by the comment at its end.
func outputOf(main []byte) (string, bool) {
	_, after, ok := bytes.Cut(main, []byte("\n// Output:\n"))
	if !ok {
		return "", false
	}
	var out strings.Builder
	for line := range strings.Lines(string(after)) {
		out.WriteString(strings.TrimPrefix(strings.TrimPrefix(line, "//"), " "))
	}
	return out.String(), true
}
