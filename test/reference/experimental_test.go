package reference

import (
	"fmt"
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// experimental is the paragraph in the comment of each name that docs/experimental.txt lists.
const experimental = "Experimental: no device has run this. See docs/stability.md."

// comments returns the comment of each exported name of a package, by "Name", "Type.Method" or "Type.Field", and of the
// package itself, by "".
func comments(p *pkg) map[string]string {
	out := map[string]string{"": p.Doc}
	for _, f := range p.files {
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				name := d.Name.Name
				if d.Recv != nil {
					name = receiver(d.Recv.List[0].Type) + "." + name
				}
				out[name] = d.Doc.Text()
			case *ast.GenDecl:
				for _, s := range d.Specs {
					spec(out, d, s)
				}
			}
		}
	}
	for name := range out {
		for part := range strings.SplitSeq(name, ".") {
			if name != "" && !ast.IsExported(part) {
				delete(out, name)
			}
		}
	}
	return out
}

// spec adds the names of a declaration.
func spec(out map[string]string, d *ast.GenDecl, s ast.Spec) {
	switch s := s.(type) {
	case *ast.ValueSpec:
		for _, n := range s.Names {
			out[n.Name] = d.Doc.Text() + "\n" + s.Doc.Text() // a group's comment is for all of it
		}
	case *ast.TypeSpec:
		out[s.Name.Name] = s.Doc.Text()
		if !d.Lparen.IsValid() {
			out[s.Name.Name] = d.Doc.Text()
		}
		if st, ok := s.Type.(*ast.StructType); ok {
			for _, f := range st.Fields.List {
				for _, n := range f.Names {
					out[s.Name.Name+"."+n.Name] = f.Doc.Text()
				}
			}
		}
	}
}

// receiver returns the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// marked reports whether a comment calls its name experimental, and whether it does so by the fixed paragraph.
func marked(comment string) (is, exact bool) {
	is = regexp.MustCompile(`(?im)^experimental\b`).MatchString(comment)
	return is, slices.Contains(strings.Split(strings.TrimSpace(comment), "\n\n"), experimental)
}

// faults compares a list of experimental names with the comments of a package.
func faults(dir string, listed []string, all map[string]string) []string {
	var out []string
	for _, name := range listed {
		full := strings.TrimSuffix(path.Base(dir)+"."+name, ".")
		if c, ok := all[name]; !ok {
			out = append(out, full+" is in docs/experimental.txt and does not exist")
		} else if _, exact := marked(c); !exact {
			out = append(out, fmt.Sprintf("%s: its comment lacks the paragraph %q", full, experimental))
		}
	}
	for name, c := range all {
		if is, _ := marked(c); is && !slices.Contains(listed, name) {
			out = append(out, path.Base(dir)+"."+name+" is called experimental, and is not in docs/experimental.txt")
		}
	}
	slices.Sort(out)
	return out
}

// TestExperimental holds docs/experimental.txt and the comments of the public packages to each other.
func TestExperimental(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "experimental.txt"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string][]string{}
	var last string
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if line <= last {
			t.Errorf("docs/experimental.txt: %s is behind %s: the list is sorted", line, last)
		}
		last = line
		p, name, _ := strings.Cut(line, ".")
		listed[p] = append(listed[p], name)
	}
	for _, dir := range public {
		for _, f := range faults(dir, listed[dir], comments(load(t, dir))) {
			t.Error(f)
		}
		delete(listed, dir)
	}
	for p := range listed {
		t.Errorf("docs/experimental.txt: %s is no public package", p)
	}
}

// TestExperimentalSees checks that each kind of difference is found.
func TestExperimentalSees(t *testing.T) {
	all := map[string]string{
		"":         "Package x is a test.\n",
		"Good":     "Good is good.\n\n" + experimental + "\n\nC: x.\n",
		"Loose":    "Loose is loose.\n\nExperimental: perhaps.\n",
		"T.Silent": "Silent says nothing.\n",
		"Secret":   "Secret is not listed.\n\n" + experimental + "\n",
	}
	got := faults("x", []string{"Good", "Gone", "Loose", "T.Silent"}, all)
	want := []string{
		"x.Gone is in docs/experimental.txt and does not exist",
		fmt.Sprintf("x.Loose: its comment lacks the paragraph %q", experimental),
		"x.Secret is called experimental, and is not in docs/experimental.txt",
		fmt.Sprintf("x.T.Silent: its comment lacks the paragraph %q", experimental),
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
