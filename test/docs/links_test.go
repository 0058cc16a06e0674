package docs

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

const (
	home  = "github.com/pureverbs/pureverbs"
	godoc = "pkg.go.dev"
)

// hosts lists what may be linked outside the repository. No test asks them. Add a host here if its pages last.
var hosts = []string{"github.com", godoc, "go.dev", "docs.kernel.org", "man7.org", "kubernetes.io", "vitepress.dev"}

// linkedPages returns the pages whose links are followed.
func linkedPages(t *testing.T) []*page {
	t.Helper()
	paths := []string{"README.md", "CONTRIBUTING.md", "RATIONALE.md", "CHANGELOG.md"}
	if _, err := os.Stat(filepath.Join(repository, "SECURITY.md")); err == nil {
		paths = append(paths, "SECURITY.md")
	}
	for _, dir := range []string{"docs", "examples", "emu", "cmd", "deploy", "internal", "test/walls", "test/hwpack"} {
		err := filepath.WalkDir(filepath.Join(repository, dir), func(file string, d fs.DirEntry, err error) error {
			switch {
			case errors.Is(err, fs.ErrNotExist) && d == nil:
				return nil
			case err != nil:
				return err
			case d.IsDir() && (d.Name() == "node_modules" || d.Name() == "testdata"):
				return fs.SkipDir
			case path.Ext(d.Name()) == ".md":
				rel, err := filepath.Rel(repository, file)
				paths = append(paths, rel)
				return err
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var out []*page
	for _, file := range paths {
		p, err := readPage(file)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

// link is a link of a page.
type link struct {
	page   *page
	line   int // from 1
	target string
}

func (l link) String() string { return fmt.Sprintf("%s:%d: %s", l.page.path, l.line, l.target) }

var (
	inlineCode = regexp.MustCompile("`+[^`]*`+")
	linkForms  = []*regexp.Regexp{
		regexp.MustCompile(`\]\(\s*<?([^)\s>]+)>?(?:\s+"[^"]*")?\s*\)`),
		regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s*<?([^\s>]+)>?`),
		regexp.MustCompile(`(?:href|src)="([^"]+)"`),
		regexp.MustCompile(`<(https?://[^>\s]+)>`),
	}
)

// prose returns the lines of a page without fenced blocks, comments and inline code.
func (p *page) prose() ([]string, error) {
	out := slices.Clone(p.lines)
	bs, err := p.blocks()
	if err != nil {
		return nil, err
	}
	for _, b := range bs {
		for i := b.first - 1; i <= b.last; i++ {
			out[i] = ""
		}
	}
	for i, line := range out {
		if strings.HasPrefix(line, "<!--") {
			out[i] = ""
		}
	}
	return out, nil
}

// links returns the links of a page.
func (p *page) links() ([]link, error) {
	lines, err := p.prose()
	if err != nil {
		return nil, err
	}
	var out []link
	for i, line := range lines {
		line = inlineCode.ReplaceAllString(line, "")
		for _, form := range linkForms {
			for _, m := range form.FindAllStringSubmatch(line, -1) {
				out = append(out, link{p, i + 1, m[1]})
			}
		}
	}
	return out, nil
}

var (
	heading  = regexp.MustCompile(`^#{1,6}\s+(.+?)\s*#*$`)
	linkText = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	named    = regexp.MustCompile(`(?:id|name)="([^"]+)"`)
)

// slug returns the anchor that GitHub gives to a heading.
func slug(text string) string {
	text = linkText.ReplaceAllString(text, "$1")
	var out strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case unicode.IsLetter(r), unicode.IsNumber(r), r == '-', r == '_':
			out.WriteRune(r)
		case r == ' ':
			out.WriteByte('-')
		}
	}
	return out.String()
}

// anchors returns the anchors of a page.
func (p *page) anchors() (map[string]bool, error) {
	lines, err := p.prose()
	if err != nil {
		return nil, err
	}
	out, times := map[string]bool{}, map[string]int{}
	for _, line := range lines {
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			out[m[1]] = true
		}
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		s := slug(m[1])
		n := times[s]
		times[s]++
		if n > 0 {
			s = fmt.Sprintf("%s-%d", s, n)
		}
		out[s] = true
	}
	return out, nil
}

// broken returns why a link leads nowhere, or "".
func broken(l link) string {
	u, err := url.Parse(l.target)
	if err != nil {
		return err.Error()
	}
	switch {
	case u.Scheme == "" && u.Host == "":
		file := path.Join(path.Dir(l.page.path), u.Path)
		if u.Path == "" {
			file = l.page.path
		}
		return nowhere(file, u.Fragment)
	case u.Scheme != "https":
		return "only https and files of the repository"
	case !slices.Contains(hosts, u.Host):
		return u.Host + " is not in the list of hosts of links_test.go"
	case u.Host == godoc:
		pkg, ours := strings.CutPrefix(strings.Trim(u.Path, "/"), home)
		if ours {
			return undocumented(strings.Trim(pkg, "/"), u.Fragment)
		}
	case strings.HasPrefix(u.Host+u.Path, home):
		if rest, ok := strings.CutPrefix(u.Host+u.Path, home+"/blob/main/"); ok {
			return nowhere(rest, u.Fragment)
		}
		if rest, ok := strings.CutPrefix(u.Host+u.Path, home+"/tree/main/"); ok {
			return nowhere(rest, u.Fragment)
		}
	}
	return ""
}

// nowhere returns why a file of the repository, or an anchor in it, is not there.
func nowhere(file, anchor string) string {
	if strings.HasPrefix(file, "..") {
		return "it leaves the repository"
	}
	info, err := os.Stat(filepath.Join(repository, file))
	if err != nil {
		return "there is no " + file
	}
	if anchor == "" {
		return ""
	}
	if info.IsDir() {
		file = path.Join(file, "README.md")
	}
	if path.Ext(file) != ".md" {
		return "an anchor in " + file + ", which is no page"
	}
	p, err := readPage(file)
	if err != nil {
		return err.Error()
	}
	as, err := p.anchors()
	if err != nil {
		return err.Error()
	}
	if !as[anchor] {
		return "no heading of " + file + " has the anchor #" + anchor
	}
	return ""
}

// undocumented returns why a package of this module, or a name in it, has no documentation.
func undocumented(pkg, name string) string {
	files, err := filepath.Glob(filepath.Join(repository, pkg, "*.go"))
	if err != nil || pkg != "" && len(files) == 0 {
		return "there is no package " + pkg
	}
	if strings.Contains("/"+pkg+"/", "/internal/") {
		return pkg + " is internal"
	}
	if name == "" || strings.HasPrefix(name, "pkg-") {
		return ""
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err.Error()
		}
		if declares(tree, name) {
			return ""
		}
	}
	return pkg + " has no " + name
}

// declares reports whether a file declares an exported name, a method "T.M" or a field "T.F".
func declares(tree *ast.File, name string) bool {
	typ, member, _ := strings.Cut(name, ".")
	if !ast.IsExported(typ) || member != "" && !ast.IsExported(member) {
		return false
	}
	for _, d := range tree.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			switch {
			case d.Recv == nil && d.Name.Name == name:
				return true
			case d.Recv != nil && d.Name.Name == member && receiver(d) == typ:
				return true
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.ValueSpec:
					if slices.ContainsFunc(s.Names, func(n *ast.Ident) bool { return n.Name == name }) {
						return true
					}
				case *ast.TypeSpec:
					if s.Name.Name == typ && (member == "" || has(s.Type, member)) {
						return true
					}
				}
			}
		}
	}
	return false
}

// receiver returns the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	e := d.Recv.List[0].Type
	if s, ok := e.(*ast.StarExpr); ok {
		e = s.X
	}
	if x, ok := e.(*ast.IndexExpr); ok {
		e = x.X
	}
	id, _ := e.(*ast.Ident)
	if id == nil {
		return ""
	}
	return id.Name
}

// has reports whether a struct or interface has a field or method.
func has(typ ast.Expr, member string) bool {
	var list *ast.FieldList
	switch typ := typ.(type) {
	case *ast.StructType:
		list = typ.Fields
	case *ast.InterfaceType:
		list = typ.Methods
	default:
		return false
	}
	for _, f := range list.List {
		if slices.ContainsFunc(f.Names, func(n *ast.Ident) bool { return n.Name == member }) {
			return true
		}
	}
	return false
}

// TestLinks follows the links of all pages for users and contributors.
func TestLinks(t *testing.T) {
	n := 0
	for _, p := range linkedPages(t) {
		ls, err := p.links()
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range ls {
			n++
			if why := broken(l); why != "" {
				t.Errorf("%v: %s", l, why)
			}
		}
	}
	if n < 20 {
		t.Errorf("%d links found: the pages have more", n)
	}
}

func TestBroken(t *testing.T) {
	for _, tc := range []struct{ target, says string }{
		{"testing.md", ""},
		{"testing.md#time", ""},
		{"../rdma", ""},
		{"#order", ""},
		{"https://pkg.go.dev/github.com/pureverbs/pureverbs/rdma", ""},
		{"https://pkg.go.dev/github.com/pureverbs/pureverbs/rdma#Dial", ""},
		{"https://pkg.go.dev/github.com/pureverbs/pureverbs/rdma#Conn.Send", ""},
		{"https://pkg.go.dev/github.com/pureverbs/pureverbs/rdma#Options.Leases", ""},
		{"https://pkg.go.dev/net/http#Server", ""},
		{"https://github.com/pureverbs/pureverbs/blob/main/README.md", ""},
		{"nothing.md", "there is no docs/nothing.md"},
		{"testing.md#times", "no heading"},
		{"../../elsewhere", "leaves the repository"},
		{"#nothing", "no heading of docs/direct-path.md"},
		{"../go.mod#x", "no page"},
		{"http://go.dev", "only https"},
		{"https://example.com/", "list of hosts"},
		{"https://pkg.go.dev/github.com/pureverbs/pureverbs/verbs", "no package verbs"},
		{"https://pkg.go.dev/github.com/pureverbs/pureverbs/internal/gid", "internal"},
		{"https://pkg.go.dev/github.com/pureverbs/pureverbs/rdma#Call", "no Call"},
		{"https://pkg.go.dev/github.com/pureverbs/pureverbs/rdma#Conn.send", "no Conn.send"},
		{"https://pkg.go.dev/github.com/pureverbs/pureverbs/rdma#Conn.Dial", "no Conn.Dial"},
		{"https://github.com/pureverbs/pureverbs/blob/main/READYOU.md", "there is no READYOU.md"},
	} {
		p := parsePage("docs/direct-path.md", "See [x]("+tc.target+").")
		ls, err := p.links()
		if err != nil || len(ls) != 1 {
			t.Fatalf("%s: %v, %v", tc.target, ls, err)
		}
		if why := broken(ls[0]); why == "" != (tc.says == "") || !strings.Contains(why, tc.says) {
			t.Errorf("%s: %q, want %q", tc.target, why, tc.says)
		}
	}
	p := parsePage("x.md",
		"[a](b \"t\") `[no](code)` ![i](c.png)\n[d]: e\n<a href=\"f\">\n```\n[no](g)\n```\n<https://go.dev>")
	ls, err := p.links()
	if got := fmt.Sprint(ls); err != nil ||
		got != "[x.md:1: b x.md:1: c.png x.md:2: e x.md:3: f x.md:7: https://go.dev]" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAnchors(t *testing.T) {
	p := parsePage("x.md", "# A `b` and C.d\n## A\n## A\n### [Link](to) – it's_1\n```\n# no\n```\n<a id=\"own\"></a>")
	got, err := p.anchors()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"a-b-and-cd", "a", "a-1", "link--its_1", "own"} {
		if !got[want] {
			t.Errorf("no %q in %v", want, got)
		}
	}
	if len(got) != 5 {
		t.Errorf("%v", got)
	}
}
