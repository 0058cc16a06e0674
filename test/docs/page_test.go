package docs

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// repository is the root of this module.
var repository = filepath.Join("..", "..")

// page is a Markdown file, by its path in the repository.
type page struct {
	path  string
	lines []string
}

// block is a fenced block of a page. Its text is lines first to last-1.
type block struct {
	page        *page
	lang        string
	first, last int
	directives  map[string]string // of the HTML comments in front of it: "code", "not run", "tested"
}

func (b block) String() string { return fmt.Sprintf("%s:%d", b.page.path, b.first) }

func (b block) text() string {
	return strings.Join(b.page.lines[b.first:b.last], "\n") + "\n"
}

// readPage reads a page.
func readPage(path string) (*page, error) {
	text, err := os.ReadFile(filepath.Join(repository, path))
	if err != nil {
		return nil, err
	}
	return parsePage(filepath.ToSlash(path), string(text)), nil
}

func parsePage(path, text string) *page {
	return &page{path, strings.Split(strings.TrimSuffix(text, "\n"), "\n")}
}

// name returns what a test of the page is called: the file, and for another folder's README also the folder.
func (p *page) name() string {
	if dir, file := path.Split(p.path); dir != "" && file == "README.md" {
		return path.Base(dir) + "-" + file
	}
	return path.Base(p.path)
}

var (
	fence     = regexp.MustCompile("^ {0,3}(`{3,}|~{3,}) *([A-Za-z]*)")
	directive = regexp.MustCompile(`^<!-- *([a-z ]+): *(.+?) *-->$`)
)

// blocks returns the fenced blocks of a page, in order.
func (p *page) blocks() ([]block, error) {
	var out []block
	for i := 0; i < len(p.lines); i++ {
		m := fence.FindStringSubmatch(p.lines[i])
		if m == nil {
			continue
		}
		b := block{page: p, lang: m[2], first: i + 1, directives: map[string]string{}}
		for c := i - 1; c >= 0; c-- {
			d := directive.FindStringSubmatch(p.lines[c])
			if d == nil {
				break
			}
			b.directives[d[1]] = d[2]
		}
		for b.last = b.first; b.last < len(p.lines); b.last++ {
			line := strings.TrimSpace(p.lines[b.last])
			if len(line) >= len(m[1]) && strings.Trim(line, m[1][:1]) == "" {
				break
			}
		}
		if b.last == len(p.lines) {
			return nil, fmt.Errorf("%v: the block does not end", b)
		}
		i = b.last
		out = append(out, b)
	}
	return out, nil
}

// codePages returns the pages whose code is compiled and run.
func codePages(t *testing.T) []*page {
	t.Helper()
	paths := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md", "cmd/perf/README.md", "deploy/README.md",
		"emu/README.md", "examples/README.md"}
	for _, dir := range []string{"", "guide", "rdmaperf"} {
		pages, err := filepath.Glob(filepath.Join(repository, "docs", dir, "*.md"))
		if err != nil || len(pages) == 0 {
			t.Fatalf("docs/%s has no pages: %v", dir, err)
		}
		for _, p := range pages {
			paths = append(paths, filepath.Join("docs", dir, filepath.Base(p)))
		}
	}
	var out []*page
	for _, path := range paths {
		p, err := readPage(path)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// blocksOf returns the blocks of a page.
func blocksOf(t *testing.T, p *page) []block {
	t.Helper()
	bs, err := p.blocks()
	if err != nil {
		t.Fatal(err)
	}
	return bs
}

// shell reports whether a block is commands.
func (b block) shell() bool {
	return slices.Contains([]string{"sh", "bash", "shell", "console"}, b.lang)
}

// runs reports whether the commands of a block are run here.
func (b block) runs() bool {
	return b.shell() && b.directives["not run"] == "" && b.directives["tested"] == ""
}

func TestBlocks(t *testing.T) {
	p := parsePage("x.md", "text\n\n<!-- code: a -->\n```go\nx := 1\n```\n"+
		"<!-- not run: no host -->\n\n````sh\n```\n````\n~~~\nb\n~~~")
	got, err := p.blocks()
	if err != nil || len(got) != 3 {
		t.Fatalf("%v, %v: want three blocks", got, err)
	}
	for i, want := range []struct{ lang, code, text string }{
		{"go", "a", "x := 1\n"}, {"sh", "", "```\n"}, {"", "", "b\n"},
	} {
		if b := got[i]; b.lang != want.lang || b.directives["code"] != want.code || b.text() != want.text ||
			b.directives["not run"] != "" {
			t.Errorf("block %d is %q %v %q, want %v", i, b.lang, b.directives, b.text(), want)
		}
	}
	if _, err := parsePage("x.md", "```\nno end").blocks(); err == nil {
		t.Error("a block without an end has no error")
	}
}
