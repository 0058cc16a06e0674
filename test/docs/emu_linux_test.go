//go:build amd64 && !race

package docs

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

const (
	module  = "github.com/pureverbs/pureverbs"
	version = "v0.1.0" // what "latest" is in these tests
)

// release lays out this working tree as a module proxy does, so that "go get" finds it as a user's would.
func release(t *testing.T, dir string) {
	t.Helper()
	at := filepath.Join(dir, module, "@v")
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(repository, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	err = filepath.WalkDir(repository, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(file, "go.mod"))
			outside := strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || nested == nil
			if file != repository && outside {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() {
			return nil
		}
		name, err := filepath.Rel(repository, file)
		if err != nil {
			return err
		}
		w, err := z.Create(module + "@" + version + "/" + filepath.ToSlash(name))
		if err != nil {
			return err
		}
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
	if err := errors.Join(err, z.Close()); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{
		"list":            []byte(version + "\n"),
		version + ".info": []byte(`{"Version":"` + version + `","Time":"2026-01-01T00:00:00Z"}`),
		version + ".mod":  mod,
		version + ".zip":  packed.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(at, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// goEnv returns a setting of the go command.
func goEnv(t *testing.T, name string) string {
	t.Helper()
	out, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatalf("go env %s: %v", name, err)
	}
	return strings.TrimSpace(string(out))
}

// bin returns the folder of the programs that "make build" builds.
func bin(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join(repository, ".build", "bin"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "emu")); err != nil {
		t.Skip("tier emu: no .build/bin/emu: make test-emu PKG=./test/docs builds and runs it")
	}
	return dir
}

// reader is a user's account with a Go toolchain, this module's release and the programs that were built of it.
type reader struct {
	home, proxy, cache, modules, proxies string
	ordinary                             bool // not root
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{home: t.TempDir(), cache: goEnv(t, "GOCACHE"), modules: goEnv(t, "GOMODCACHE"),
		proxies: goEnv(t, "GOPROXY")}
	r.proxy = filepath.Join(r.home, "proxy")
	release(t, r.proxy)
	return r
}

// env returns the environment of a shell.
func (r *reader) env(t *testing.T) []string {
	t.Helper()
	gopath := filepath.Join(r.home, "go")
	// Without paths in what is compiled, all trees share the cache.
	flags := os.Getenv("GOFLAGS") + " -trimpath -modcacherw"
	return append(os.Environ(), "HOME="+r.home, "GOPATH="+gopath, "GOBIN=", "GOMODCACHE="+filepath.Join(r.home, "mod"),
		"PATH="+filepath.Join(gopath, "bin")+":"+bin(t)+":"+os.Getenv("PATH"),
		"GOCACHE="+r.cache, "GOFLAGS="+flags, "GOTOOLCHAIN=local", "GOSUMDB=off", "GOWORK=off",
		"GOPRIVATE=", "GOPROXY=file://"+r.proxy+",file://"+r.modules+"/cache/download,"+r.proxies)
}

// start starts a program. Its output, stdout and stderr together, comes in pieces.
func (r *reader) start(t *testing.T, ctx context.Context, dir string, args ...string) (*exec.Cmd, io.WriteCloser,
	<-chan string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	pieces := make(chan string)
	out, into, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr, cmd.Dir, cmd.Env = into, into, dir, r.env(t)
	// A pipe: each shell takes its own lines and leaves the rest.
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if r.ordinary { // without capabilities, and the owner of the files that this test has written
		const user = 65534
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: user, HostID: os.Getgid(), Size: 1}}
		cmd.Path, cmd.Args = "/bin/sh", append([]string{"sh", "-c", `ulimit -l 8192 && exec "$@"`, "sh"}, args...)
	}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = into.Close()
	go func() {
		defer close(pieces)
		defer out.Close()
		b := make([]byte, 4096)
		for {
			n, err := out.Read(b)
			if n > 0 {
				pieces <- string(b[:n])
			}
			if err != nil {
				return
			}
		}
	}()
	return cmd, in, pieces
}

// run runs a program and returns what it prints.
func (r *reader) run(t *testing.T, dir string, args ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	cmd, in, pieces := r.start(t, ctx, dir, args...)
	_ = in.Close()
	var out strings.Builder
	for p := range pieces {
		out.WriteString(p)
	}
	return out.String(), cmd.Wait()
}

// follow types commands into a shell. As a reader does, it waits for the output of each command before the next one.
func (r *reader) follow(t *testing.T, dir string, commands []command) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	shell, in, pieces := r.start(t, ctx, dir, "bash")
	background := false // there may be programs in the background
	for i, c := range commands {
		var out strings.Builder
		if _, err := io.WriteString(in, c.typed(i)); err != nil {
			t.Errorf("%v: the shell has ended: %v", c, err)
			break
		}
		patience := time.After(testutil.Patience)
		background = background || strings.HasSuffix(c.text, "&")
		for open := true; open && !c.done(i, out.String()); {
			if _, ended := c.status(i, out.String()); ended && !background {
				break // nobody is left to print what is missing
			}
			var p string
			select {
			case p, open = <-pieces:
				out.WriteString(p)
			case <-patience:
				open = false
			}
		}
		if wrong := c.judge(i, out.String()); wrong != "" {
			t.Error(wrong)
			break // those behind it need it
		}
	}
	_ = in.Close()
	cancel() // with what it has left in the background
	for range pieces {
	}
	_ = shell.Wait()
}

// folder prepares a folder as a page wants it: empty if the page makes a module of its own, otherwise a module that
// requires this one. The whole files of the page are in it.
func (r *reader) folder(t *testing.T, bs []block, commands []command) string {
	t.Helper()
	dir := t.TempDir()
	for _, b := range bs {
		name, text := b.directives["code"], b.text()
		file, whole := wholeFile(name)
		if b.directives["file"] != "" {
			name = b.directives["file"]
			file, whole = wholeFile(name)
			full, err := os.ReadFile(filepath.Join(repository, file))
			if err != nil {
				t.Fatalf("%v: %v", b, err)
			}
			text = string(full)
		}
		if !whole {
			continue
		}
		to := filepath.Join(dir, name)
		if file == name { // by its path in the repository
			to = filepath.Join(dir, path.Base(file))
		}
		err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, []byte(text), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}
	if !slices.ContainsFunc(commands, func(c command) bool { return strings.Contains(c.text, "go mod init") }) {
		out, err := r.run(t, dir, "sh", "-ec", "go mod init example.com/try; go get "+module+"/rdma@latest")
		if err != nil {
			t.Fatalf("a module that requires this one: %v\n%s", err, out)
		}
	}
	return dir
}

// TestEmuPages runs the commands of pages as they are printed, those of each page in one shell. It also runs those
// about the host as an ordinary user, whose memory that may be locked is limited. A full run does so with all pages.
func TestEmuPages(t *testing.T) {
	testutil.NeedEmu(t)
	bin(t)
	r := newReader(t)
	for _, p := range codePages(t) {
		var commands []command
		bs := blocksOf(t, p)
		for _, b := range bs {
			if b.runs() {
				cs, err := b.commands()
				if err != nil {
					t.Fatal(err)
				}
				commands = append(commands, cs...)
			}
		}
		if len(commands) == 0 {
			continue
		}
		t.Run(p.name(), func(t *testing.T) {
			for _, c := range commands {
				if strings.Contains(c.text, "ib_write_bw") {
					testutil.NeedProgram(t, "ib_write_bw")
				}
			}
			r.ordinary = false
			r.follow(t, r.folder(t, bs, commands), commands)
		})
		if os.Getuid() != 0 || p.name() != "ready.md" && !testutil.Full() {
			continue
		}
		t.Run(p.name()+"/user", func(t *testing.T) {
			r.ordinary = true
			r.follow(t, r.folder(t, bs, commands), commands)
		})
	}
}

// TestEmuPrograms runs the programs below code, with two exceptions: a program without "// Output:" must be printed by
// a page, whose commands run it.
func TestEmuPrograms(t *testing.T) {
	testutil.NeedEmu(t)
	emu := filepath.Join(bin(t), "emu")
	mains, err := filepath.Glob("code/*/main.go")
	if err != nil || len(mains) == 0 {
		t.Fatalf("no programs: %v", err)
	}
	printed := map[string]bool{}
	for _, p := range codePages(t) {
		for _, b := range blocksOf(t, p) {
			printed[b.directives["code"]], printed[b.directives["file"]] = true, true
		}
	}
	built := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", built+"/", "./code/...")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	r := &reader{home: t.TempDir()}
	for _, main := range mains {
		name := filepath.Base(filepath.Dir(main))
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(main)
			if err != nil {
				t.Fatal(err)
			}
			want, ok := outputOf(text)
			if !ok {
				if !printed[name+"/main.go"] {
					t.Errorf("%s has no \"// Output:\", and no page has <!-- code: %s/main.go -->", main, name)
				}
				return
			}
			out, err := r.run(t, built, emu, "--strict", "--", "./"+name)
			if err != nil || out != want {
				t.Errorf("%v, printed\n%s\nwant\n%s", err, out, want)
			}
		})
	}
}
