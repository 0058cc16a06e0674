package reference

import (
	"go/doc/comment"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// grouped are the packages whose doc.go lists their names by task.
var grouped = []string{"efadv", "emu/emutest", "ibv", "loader", "mlx5dv", "rdma", "rdmacm", "rdmacm/rsocket"}

// hidden are names that doc.go of a package need not list, because they are for other packages of this module.
var hidden = map[string][]string{"ibv": {"MLX5SendOps"}}

// link is a link in a doc comment.
type link struct{ importPath, name string }

// linksOf returns the links of a package's comment, and what has the form of a link and is none.
func linksOf(p *pkg, text string) (links []link, dead []string) {
	unresolved := regexp.MustCompile(`\[\*?[A-Za-z][\w/.]*\]`)
	var texts func(list []comment.Text)
	texts = func(list []comment.Text) {
		for _, x := range list {
			switch x := x.(type) {
			case comment.Plain:
				dead = append(dead, unresolved.FindAllString(string(x), -1)...)
			case *comment.DocLink:
				name := x.Name
				if x.Recv != "" {
					name = x.Recv + "." + name
				}
				links = append(links, link{x.ImportPath, name})
			case *comment.Link:
				texts(x.Text)
			}
		}
	}
	var blocks func(list []comment.Block)
	blocks = func(list []comment.Block) {
		for _, b := range list {
			switch b := b.(type) {
			case *comment.Paragraph:
				texts(b.Text)
			case *comment.Heading:
				texts(b.Text)
			case *comment.List:
				for _, item := range b.Items {
					blocks(item.Content)
				}
			}
		}
	}
	blocks(p.Parser().Parse(text).Content)
	return links, dead
}

// unnamed returns the types and functions of a package to which no link leads.
func unnamed(p *pkg, links []link, except []string) []string {
	named := map[string]bool{}
	for _, l := range links {
		if l.importPath == "" {
			named[l.name] = true
		}
	}
	all := map[string]bool{}
	for _, t := range p.Types {
		all[t.Name] = true
		for _, f := range t.Funcs {
			all[f.Name] = true
		}
	}
	for _, f := range p.Funcs {
		all[f.Name] = true
	}
	maps.DeleteFunc(all, func(name string, _ bool) bool { return named[name] || slices.Contains(except, name) })
	return slices.Sorted(maps.Keys(all))
}

// symbols returns what a link to a package may name: what it exports, and methods.
func symbols(p *pkg) map[string]bool {
	out := map[string]bool{"": true}
	for _, v := range slices.Concat(p.Consts, p.Vars) {
		for _, name := range v.Names {
			out[name] = true
		}
	}
	for _, f := range p.Funcs {
		out[f.Name] = true
	}
	for _, t := range p.Types {
		out[t.Name] = true
		for _, v := range slices.Concat(t.Consts, t.Vars) {
			for _, name := range v.Names {
				out[name] = true
			}
		}
		for _, f := range t.Funcs {
			out[f.Name] = true
		}
		for _, m := range t.Methods {
			out[t.Name+"."+m.Name] = true
		}
	}
	return out
}

// TestGroups holds doc.go of each package to its names: each type and each function is in a group.
func TestGroups(t *testing.T) {
	for _, dir := range grouped {
		p := load(t, dir)
		links, dead := linksOf(p, p.Doc)
		for _, d := range dead {
			t.Errorf("%s/doc.go: %s leads nowhere", dir, d)
		}
		for _, name := range unnamed(p, links, hidden[dir]) {
			t.Errorf("%s/doc.go does not name %s: add [%s] to a group", dir, name, name)
		}
		if p.Synopsis(p.Doc) == "" || !strings.HasPrefix(p.Doc, "Package "+path.Base(dir)+" ") {
			t.Errorf("%s/doc.go does not begin with \"Package %s \"", dir, path.Base(dir))
		}
		for _, l := range links {
			other, ours := strings.CutPrefix(l.importPath, module)
			if ours && !symbols(load(t, other))[l.name] {
				t.Errorf("%s/doc.go: %s has no %s", dir, other, l.name)
			}
		}
	}
}

// TestGroupsSees checks that a missing name and a dead link are found.
func TestGroupsSees(t *testing.T) {
	p := load(t, "efadv")
	links, dead := linksOf(p, "Package efadv is a test: [CreateQP], [ibv.QP], [Missing].\n\n"+
		"  - [QueryDevice] in a list\n\nAnd:\n\n\t[AHNumber] in code\n")
	want := []link{{"", "CreateQP"}, {module + "ibv", "QP"}, {"", "QueryDevice"}}
	if !slices.Equal(links, want) || !slices.Equal(dead, []string{"[Missing]"}) {
		t.Errorf("links %v, dead %v", links, dead)
	}
	got := unnamed(p, links, []string{"WQ"})
	for name, missing := range map[string]bool{"AHNumber": true, "CreateQP": false, "DeviceAttr": true, "WQ": false} {
		if slices.Contains(got, name) != missing {
			t.Errorf("%s: missing is %v", name, !missing)
		}
	}
	if s := symbols(p); !s["DeviceCaps.String"] || !s["CapRead"] || s["Missing"] {
		t.Error("symbols of efadv")
	}
}
