//go:build amd64 && !race

package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestImages runs our programs in roots like those of container images that have no glibc, as docs/guide/containers.md
// says: a root with musl needs one link, and a root with nothing runs only the programs that load no library.
func TestImages(t *testing.T) {
	if !testutil.Full() {
		t.Skip("a full run downloads musl")
	}
	root := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", root+"/", "./cmd/show_gids", "./cmd/perf/rdmaperf")
	build.Dir = repository
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	inside := func(args ...string) (string, error) {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=/"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
		if os.Getuid() != 0 {
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	build = exec.Command("go", "build", "-trimpath", "-tags=pureverbs_native", "-o", root+"/native",
		"./cmd/perf/rdmaperf")
	build.Dir = repository
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	const program, static, native = "/rdmaperf", "/show_gids", "/native"
	statics := func(where string) {
		t.Helper()
		for _, p := range []string{static, native} {
			if out, err := inside(p, "--version"); err != nil {
				t.Errorf("%s in %s: %v\n%s", p, where, err, out)
			}
		}
		if out, err := inside(native, "write", "bw"); err == nil || strings.Contains(out, "librar") {
			t.Errorf("%s in %s without devices: %v\n%s", native, where, err, out)
		}
	}
	statics("an empty root")
	if out, err := inside(program, "--version"); err == nil {
		t.Errorf("%s runs in an empty root: say so in docs/guide/containers.md\n%s", program, out)
	}

	packed := t.TempDir()
	download := exec.Command("sh", "-ec", `apt-get download musl && dpkg-deb -x musl_*.deb "$1"`, "sh", root)
	download.Dir = packed
	if out, err := download.CombinedOutput(); err != nil {
		t.Fatalf("apt-get download musl: %v\n%s", err, out)
	}
	if out, err := inside(program, "--version"); err == nil {
		t.Errorf("%s runs with musl alone: say so in docs/guide/containers.md\n%s", program, out)
	}
	if err := os.Mkdir(filepath.Join(root, "lib64"), 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(root, "lib64", "ld-linux-x86-64.so.2")
	if err := os.Symlink("/lib/ld-musl-x86_64.so.1", link); err != nil {
		t.Fatal(err)
	}
	if out, err := inside(program, "--version"); err != nil {
		t.Errorf("%s with musl and the link: %v\n%s", program, err, out)
	}
	statics("a root with musl")
	// It runs until it looks for the library with musl's dlopen.
	out, err := inside(program, "write", "bw")
	if err == nil || !strings.Contains(out, "Error loading shared library") {
		t.Errorf("%s without libibverbs: %v\n%s", program, err, out)
	}
}
