package walls

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// libraries are the packages that a user's program imports.
var libraries = []string{"ibv", "rdmacm", "rdma", "mlx5dv", "efadv", "loader", "hostfacts"}

// linked is a package that a program links, and what it imports.
type linked struct {
	path    string
	imports []string
}

// listed reads what go list prints with format.
func listed(text string) (out []linked) {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		out = append(out, linked{words[0], words[1:]})
	}
	return out
}

const format = `{{.ImportPath}} {{join .Imports " "}}`

// burdens returns the imports that a user's program must not link: what starts programs or serves HTTP, by any package,
// and C by one of this module. purego and net import C, if they are built with cgo.
func burdens(list []linked) (out []string) {
	for _, p := range list {
		for _, i := range p.imports {
			if i == "os/exec" || i == "net/http" || i == "C" && strings.HasPrefix(p.path, module) {
				out = append(out, p.path+" imports "+i)
			}
		}
	}
	return out
}

// TestLinks: a program that imports the libraries links nothing of the kind, on any system.
func TestLinks(t *testing.T) {
	for _, system := range []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64", "freebsd/amd64"} {
		goos, arch, _ := strings.Cut(system, "/")
		args := []string{"list", "-deps", "-f", format}
		for _, l := range libraries {
			args = append(args, module+l)
		}
		c := exec.CommandContext(t.Context(), "go", args...)
		c.Env = append(os.Environ(), "CGO_ENABLED=1", "GOOS="+goos, "GOARCH="+arch) // so that C is seen
		c.Stderr = os.Stderr
		text, err := c.Output()
		if err != nil {
			t.Fatal(system, err)
		}
		list := listed(string(text))
		for _, l := range libraries {
			if !slices.ContainsFunc(list, func(p linked) bool { return p.path == module+l }) {
				t.Errorf("%s: go list did not print %s", system, l)
			}
		}
		for _, b := range burdens(list) {
			t.Errorf("%s: %s", system, b)
		}
	}
}

// TestKernelLinks: what speaks to the kernel itself links nothing that loads or calls C.
func TestKernelLinks(t *testing.T) {
	c := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"internal/kernel/...", module+"internal/usercm")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux") // package net calls C
	c.Stderr = os.Stderr
	text, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Fields(string(text))
	for _, p := range []string{"internal/kernel/mlx5", "internal/kernel/uverbs", "internal/kernel/ucma",
		"internal/usercm"} {
		if !slices.Contains(list, module+p) {
			t.Errorf("go list did not print %s", p)
		}
	}
	for _, p := range callsC(list) {
		t.Error("it links", p)
	}
}

// TestFactsLinks: hostfacts links nothing that loads or calls C, so that agents without RDMA's libraries can use it.
func TestFactsLinks(t *testing.T) {
	c := exec.CommandContext(t.Context(), "go", "list", "-deps", module+"hostfacts")
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux") // package net calls C
	c.Stderr = os.Stderr
	text, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	list := strings.Fields(string(text))
	if !slices.Contains(list, module+"internal/netview") {
		t.Errorf("go list printed %q", list)
	}
	for _, p := range callsC(list) {
		t.Error("it links", p)
	}
}

// callsC returns the packages that load or call C.
func callsC(list []string) (out []string) {
	for _, p := range list {
		if strings.HasPrefix(p, "github.com/ebitengine/purego") || p == "runtime/cgo" ||
			within(strings.TrimPrefix(p, module), "internal/bind", "internal/ccall", "internal/ops", "loader") {
			out = append(out, p)
		}
	}
	return out
}

// TestLinksFails checks that TestLinks can fail.
func TestLinksFails(t *testing.T) {
	got := burdens(listed("net C errors\nos/exec os\n" +
		module + "internal/gid net\n" +
		module + "internal/cuda C unsafe\n" +
		module + "loader net os/exec\n" +
		"example.com/trace fmt net/http\n" +
		module + "rdma example.com/trace net/http/httptrace\n"))
	want := []string{module + "internal/cuda imports C", module + "loader imports os/exec",
		"example.com/trace imports net/http"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	want = []string{"runtime/cgo", "github.com/ebitengine/purego/internal/fakecgo", module + "internal/bind/libmlx5",
		module + "loader"}
	if got := callsC(append([]string{"runtime", module + "internal/abi", module + "internal/control"},
		want...)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
