package walls

import (
	"fmt"
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// phrases are patterns that readers had to read twice, with the way out. Only patterns that are wrong wherever they
// match are listed.
var phrases = []struct {
	pattern *regexp.Regexp
	instead string
	pages   bool // in pages too; the others are good English in a sentence of prose
}{
	{regexp.MustCompile(`(?i)(^|[.:;,(] )(and |or )?(who|whoever|whom) \w|` +
		`\b(to|by|for|of|from|than|when|with|as|if|on|but|while|until) (who|whoever|whom)\b`),
		"name the actor: the server, the caller, the goroutine that waits", true},
	{regexp.MustCompile(`(?i)\b(of which|of whom|thereof)\b`), "split the sentence", true},
	{regexp.MustCompile(`(?i)\b(is|are) what\b`), "say what it is with a noun", false},
	{regexp.MustCompile(`(?i)\b(tells?|says?) (whether|which|why|how)\b`), "returns, describes", false},
	{regexp.MustCompile(`(?i)\bstands? (at|in|on|there|beside)\b`), "is in, is listed in", true},
	{regexp.MustCompile(`(?i)\bbeside\b`), "next to, compared with, in addition to, at the same time as", true},
	{regexp.MustCompile(`(?i), too([.,;:)]|$)`), `"also" before the verb`, true},
	{regexp.MustCompile(`(?i)\b(sees? to it|gives? back|of before)\b`), "ensures; returns; earlier", true},
}

// spoken are the folders whose comments are checked.
var spoken = []string{"cmd", "efadv", "emu/emutest", "examples", "ibv", "internal", "loader", "mlx5dv", "rdma",
	"rdmacm"}

// text is a comment or a paragraph, as lines.
type text struct {
	line  int // of the first
	lines []string
}

// findings returns "line: phrase: instead" for each phrase of a text, which is of a page or a comment, with the line on
// which it begins.
func (t text) findings(page bool) []string {
	var starts []int
	var b strings.Builder
	for _, l := range t.lines {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		starts = append(starts, b.Len())
		b.WriteString(strings.TrimSpace(l))
	}
	var out []string
	for _, p := range phrases {
		if page && !p.pages {
			continue
		}
		for _, m := range p.pattern.FindAllStringIndex(b.String(), -1) {
			at := 0
			for at+1 < len(starts) && starts[at+1] <= m[0]+1 {
				at++
			}
			found := strings.Trim(b.String()[m[0]:m[1]], " .:;,(")
			out = append(out, fmt.Sprintf("%d: %q: %s", t.line+at, found, p.instead))
		}
	}
	return out
}

// comments returns the comments of a Go file, one text for each paragraph; nil if the file is generated.
func comments(s source) []text {
	if ast.IsGenerated(s.tree) {
		return nil
	}
	var out []text
	for _, g := range s.tree.Comments {
		for i, c := range g.List {
			at := s.set.Position(c.Pos()).Line
			body := strings.TrimPrefix(c.Text, "//")
			blank := strings.TrimSpace(body) == ""
			if i == 0 || blank {
				out = append(out, text{line: at})
			}
			last := &out[len(out)-1]
			if blank {
				last.line = at + 1
				continue
			}
			last.lines = append(last.lines, body)
		}
	}
	return out
}

// paragraphs returns the paragraphs of a page, without blocks of code and without code in a line.
func paragraphs(page string) []text {
	inline := regexp.MustCompile("`[^`]*`")
	var out []text
	code, open := false, false
	for i, l := range strings.Split(page, "\n") {
		fence := strings.HasPrefix(strings.TrimSpace(l), "```")
		if fence {
			code = !code
		}
		if code || fence || strings.TrimSpace(l) == "" || strings.HasPrefix(l, "    ") {
			open = false
			continue
		}
		if !open || strings.HasPrefix(l, "|") {
			out = append(out, text{line: i + 1})
			open = true
		}
		last := &out[len(out)-1]
		last.lines = append(last.lines, inline.ReplaceAllString(l, "x"))
	}
	return out
}

// TestVoice holds comments and pages to phrases that readers understand at once.
func TestVoice(t *testing.T) {
	code := 0
	report := func(path string, list []text) {
		for _, x := range list {
			for _, f := range x.findings(strings.HasSuffix(path, ".md")) {
				t.Errorf("%s:%s", path, f)
			}
		}
	}
	for _, s := range sources(t) {
		if within(s.dir, spoken...) && !s.test() {
			report(s.path(), comments(s))
			code++
		}
	}
	if code < 300 {
		t.Errorf("%d files read, want 300 or more", code)
	}
	pages := 0
	err := filepath.WalkDir(repository, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path == repository:
			return nil
		case d.IsDir() && (d.Name()[0] == '.' || d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case !strings.HasSuffix(path, ".md"):
			return nil
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(repository, path)
		report(filepath.ToSlash(rel), paragraphs(string(b)))
		pages++
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages < 30 {
		t.Errorf("%d pages read, want 30 or more", pages)
	}
}

// TestVoiceFinds: each phrase is found on its line, and its better form is not.
func TestVoiceFinds(t *testing.T) {
	const src = `package p

// A is what B
// needs.
//
// Wakes up who
// waits, and who polls sleeps. The user who waits is fine.
var a = "who waits" // the ring, of which C has one

// It tells
// whether it is done; it stands in the table, beside others, too.
// It gives back memory.
var b int
`
	s, err := parse(token.NewFileSet(), "p", "p.go", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, x := range comments(s) {
		for _, f := range x.findings(false) {
			line, rest, _ := strings.Cut(f, ": ")
			phrase, _, _ := strings.Cut(rest, ": ")
			got[line+" "+phrase] = true
		}
	}
	for _, want := range []string{`3 "is what"`, `7 "and who p"`, `8 "of which"`, `10 "tells whether"`,
		`11 "stands in"`, `11 "beside"`, `11 "too"`, `12 "gives back"`} {
		if !got[want] {
			t.Errorf("%s is not found in %v", want, got)
		}
		delete(got, want)
	}
	if len(got) > 0 {
		t.Errorf("found %v", got)
	}
	const page = "# Page\n\nIt says\nwhether.\n\n    who waits\n\n```\nwho waits\n```\n\n| `of which` | beside it |\n"
	var found []string
	for _, x := range paragraphs(page) {
		found = append(found, x.findings(true)...)
	}
	if len(found) != 1 || !strings.HasPrefix(found[0], `12: "beside"`) {
		t.Errorf("found %q", found)
	}
}
