package examples

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// repository is the root of this module.
var repository = filepath.Join("..", "..")

// folders returns the names of the examples. Folders program and frame have what they share.
func folders(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(repository, "examples"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != "program" && e.Name() != "frame" {
			names = append(names, e.Name())
		}
	}
	if len(names) < 20 {
		t.Fatalf("only %d examples: %v", len(names), names)
	}
	return names
}

// TestCopies compiles and vets copies of all examples in modules outside this one, which see none of its internal
// packages.
func TestCopies(t *testing.T) {
	if !testutil.Full() {
		t.Skip("full runs only, by make test-full: compiles and vets all examples again")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command in PATH")
	}
	root, err := filepath.Abs(repository)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	text := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	modules := []string{"."}
	for _, name := range folders(t) {
		if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(root, "examples", name))); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(dir, name, "go.mod")); err != nil {
			continue
		}
		modules = append(modules, name)
		mod := regexp.MustCompile(`(?m)^module .*$`).ReplaceAllString(text("examples/"+name+"/go.mod"),
			"module example.com/"+name)
		write(name+"/go.mod", strings.Replace(mod, "=> ../..\n", "=> "+root+"\n", 1))
	}
	// What this module requires and the examples use is what `go get` would choose.
	var require []string
	for _, path := range []string{"github.com/spf13/pflag", "github.com/google/go-cmp"} {
		m := regexp.MustCompile(`(?m)^\t(` + regexp.QuoteMeta(path) + ` v\S+)$`).FindStringSubmatch(text("go.mod"))
		if m == nil {
			t.Fatalf("go.mod does not require %s", path)
		}
		require = append(require, m[1])
	}
	write("go.mod", "module example.com/copies\n\ngo 1.25.0\n\nrequire (\n\tgithub.com/pureverbs/pureverbs v0.0.0\n\t"+
		strings.Join(require, "\n\t")+"\n)\n\nreplace github.com/pureverbs/pureverbs => "+root+"\n")
	write("go.sum", text("go.sum"))
	for _, m := range modules {
		// go list -export compiles without linking, which takes most of the time of go build.
		for _, args := range [][]string{{"list", "-export", "-f={{/**/}}", "./..."}, {"vet", "./..."}} {
			c := exec.Command("go", args...)
			c.Dir = filepath.Join(dir, m)
			c.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -mod=mod -trimpath", "GOWORK=off",
				"CGO_ENABLED=0")
			if m == "." { // others have dependencies of their own, which may have to be downloaded
				c.Env = append(c.Env, "GOPROXY=off")
			}
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("go %s in module %s: %v\n%s", strings.Join(args, " "), m, err, out)
			}
		}
	}
}

// TestReadmes: each example has a README with a command for the emulator, what that prints, and one for hosts with
// devices, and the index has each example. A command has its folder: some examples have names of other programs.
func TestReadmes(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(repository, "examples", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range folders(t) {
		if !strings.Contains(string(index), "]("+name+")") {
			t.Errorf("examples/README.md has no link to %s", name)
		}
		r := readme(t, name)
		if !strings.HasPrefix(r.text, "# "+name+"\n") {
			t.Errorf("%s: the title is not # %s", name, name)
		}
		for _, block := range []string{r.emulated, r.hosts} {
			if !regexp.MustCompile(`\bbin/` + name + `\b`).MatchString(block) {
				t.Errorf("%s: a command does not run it:\n%s", name, block)
			}
		}
	}
}

// page is the README of an example.
type page struct{ text, emulated, prints, hosts string }

var fences = regexp.MustCompile("(?s)\n```(sh|text)\n(.*?)```\n")

// readme reads a README, and fails without its three blocks.
func readme(t *testing.T, name string) page {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(repository, "examples", name, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	m := fences.FindAllStringSubmatch(string(b), -1)
	if len(m) != 3 || m[0][1] != "sh" || !strings.HasPrefix(m[0][2], "emu ") || m[1][1] != "text" || m[2][1] != "sh" {
		t.Fatalf("examples/%s/README.md: want a sh block that begins with emu, a text block and a sh block", name)
	}
	return page{string(b), m[0][2], m[1][2], m[2][2]}
}
