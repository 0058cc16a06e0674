//go:build linux && amd64 && !race

package emu

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// limit bounds a row, both ends together. The program that kills them after it gets a little longer.
const limit = testutil.Patience - 20*time.Second

var (
	root string // of the repository
	full = testutil.Full()
	port atomic.Int32
)

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	wd, err := os.Getwd()
	if os.Getenv(hostEnv) != "" { // the test outside has built all
		root = filepath.Dir(filepath.Dir(wd))
		return m.Run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	root = filepath.Dir(filepath.Dir(wd))
	if os.Getenv(testutil.EmuEnv) == "" {
		return m.Run() // all tests skip
	}
	build := exec.Command("go", "build", "-trimpath", "-o", ".build/bin/", "./cmd/perf/rdmaperf", "./cmd/show_gids", "./emu", "./examples/...",
		"./test/emu/opening", "./test/emu/pair")
	build.Dir = root
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// way is a way to run the programs of a row.
type way struct {
	name    string
	release string // "" for this system's programs and libraries
	nobody  bool   // as user nobody, the emulator too
	empty   bool   // static programs in a root folder of their own
	env     string // variables of a row
}

var (
	here = way{name: "here"}
	ways = []way{here, {name: "nobody", nobody: true}, {name: "bullseye", release: "bullseye"},
		{name: "trixie", release: "trixie"}, {name: "sid", release: "sid"},
		{name: "trixie-nobody", release: "trixie", nobody: true}}
)

var ours = []string{"rdmaperf", "show_gids", "devinfo", "asyncwatch", "pingpong", "raw_pingpong", "rsocket"}

// command returns the command that starts a program. A row names the programs of pingpong by their stock peers.
func (w way) command(program string, args ...string) []string {
	program, static := strings.CutPrefix(program, staticPrefix)
	if kind, ok := strings.CutSuffix(program, "_pingpong"); ok && !strings.HasPrefix(kind, "ibv_") && kind != "raw" {
		program, args = "pingpong", append([]string{kind}, args...)
	}
	if static {
		return w.static(program, args...)
	}
	if slices.Contains(ours, program) {
		program = filepath.Join(root, ".build/bin", program)
	}
	c := append([]string{program}, args...)
	if w.release != "" {
		c = append([]string{filepath.Join(root, "scripts/in-debian"), w.release}, c...)
	}
	return c
}

// emulate runs a command under the emulator and returns its output.
func (w way) emulate(t *testing.T, flags []string, command ...string) (string, error) {
	t.Helper()
	if w.release != "" {
		if _, err := os.Stat(filepath.Join(root, ".build/debian", w.release)); err != nil {
			t.Fatalf("%v: run scripts/debian-root", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit+10*time.Second)
	defer cancel()
	args := append(append([]string{"--strict"}, flags...), "--")
	c := exec.CommandContext(ctx, filepath.Join(root, ".build/bin/emu"), append(args, command...)...)
	c.Dir, c.Env = "/", append(os.Environ(), strings.Fields(w.env)...)
	if w.nobody && os.Getuid() == 0 {
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.WaitDelay = time.Second
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	err := c.Run()
	if ctx.Err() != nil {
		err = fmt.Errorf("killed after %v: %w", limit+10*time.Second, err)
	}
	return out.String(), err
}

// roles are the flags of programs whose two ends differ. HOST and PORT are replaced.
var roles = map[string][2]string{
	"rping":            {"-s -a HOST -p PORT", "-c -a HOST -p PORT"},
	"ucmatose":         {"-b HOST -p PORT", "-s HOST -p PORT"},
	"udaddy":           {"-b HOST", "-s HOST"},
	"mckey":            {"-b HOST", "-b HOST -s"},
	"rdma_server":      {"-s HOST -p PORT", ""},
	"rdma_client":      {"", "-s HOST -p PORT"},
	"rdma_xserver":     {"-p PORT", ""},
	"rdma_xclient":     {"", "-s HOST -p PORT"},
	"cmtime":           {"-b HOST -p PORT", "-s HOST -p PORT"},
	"rstream":          {"-b HOST -p PORT", "-s HOST -p PORT"},
	"riostream":        {"-b HOST -p PORT", "-s HOST -p PORT"},
	"raw_ethernet_bw":  {"--server " + raw1, "--client " + raw0},
	"raw_ethernet_lat": {"--server " + raw1, "--client " + raw0},
	"raw_pingpong":     {"--server " + raw1, "--client " + raw0},
	"udpong":           {"-b HOST -p PORT", "-s HOST -p PORT"},
}

// The ends of programs that send frames: the two devices, by the addresses of their ports.
const (
	raw0 = "-d mlx5_0 -B e4:1d:2d:e0:00:00 -E e4:1d:2d:e0:00:10"
	raw1 = "-d mlx5_1 -B e4:1d:2d:e0:00:10 -E e4:1d:2d:e0:00:00"
)

// row is one run. Its command is "SERVER FLAG..." for two ends of one program,
// "SERVER/CLIENT FLAG..." for two programs, a colon for a space in either, and
// "SERVER FLAG...; CLIENT FLAG..." where the flags differ.
type row struct {
	command string
	host    string   // where the client finds the server; 127.0.0.1 if ""
	emu     []string // flags of the emulator
	pair    []string // flags of pair
	env     string   // variables of the programs
	want    string   // what the output must contain besides what check looks at
}

// ends returns the two ends' command lines.
func (r row) ends(w way, port string) (server, client []string) {
	host := r.host
	if host == "" {
		host = "127.0.0.1"
	}
	s, c, two := strings.Cut(r.command, "; ")
	if !two {
		programs, flags, _ := strings.Cut(r.command, " ")
		a, b, different := strings.Cut(programs, "/")
		if !different {
			b = a
		}
		s, c = a+" "+flags, b+" "+flags
	}
	for i, line := range []string{s, c} {
		f := strings.Fields(line)
		program := strings.Split(f[0], ":")
		args := append(slices.Clone(program[1:]), f[1:]...)
		if strings.HasPrefix(program[0], "ib_") || strings.HasPrefix(program[0], "raw_ethernet_") {
			args = append(args, "-F") // on a busy machine its clock is hard to measure
		}
		if r, ok := roles[strings.TrimPrefix(program[0], staticPrefix)]; ok {
			args = append(args, strings.Fields(strings.NewReplacer("HOST", host, "PORT", port).Replace(r[i]))...)
		} else {
			args = append(args, "-p", port)
			if i == 1 {
				args = append(args, host)
			}
		}
		line := w.command(program[0], args...)
		if i == 0 {
			server = line
		} else {
			client = line
		}
	}
	return server, client
}

// awaited returns the flags that tell pair how to see that the server is ready.
func awaited(server []string, port string) []string {
	names := func(program string) bool {
		return slices.ContainsFunc(server, func(s string) bool { return filepath.Base(s) == program })
	}
	switch {
	case slices.Contains(server, "--server"): // of frames
		return []string{"-raw"}
	case !cm(server):
		return []string{"-p", port}
	case names("udaddy"):
		return []string{"-cm", "7174"} // it has no flag for it
	case names("mckey"):
		return nil // it listens nowhere
	}
	return []string{"-cm", port}
}

// own reports whether a command line runs a program of ours.
func own(line []string) bool {
	return slices.ContainsFunc(line, func(s string) bool {
		return slices.Contains(ours, filepath.Base(s)) || staticBin != "" && strings.HasPrefix(s, staticBin)
	})
}

// cm reports whether the server listens in rdma_cm, where its port is not visible.
func cm(server []string) bool {
	return slices.ContainsFunc(server, func(s string) bool { return roles[filepath.Base(s)] != [2]string{} }) ||
		slices.Contains(server, "-R") || slices.Contains(server, "-z")
}

// run runs the row one way.
func (r row) run(t *testing.T, w way) {
	t.Helper()
	for try := 1; ; try++ {
		server, client, out, err := r.once(t, w)
		if err == nil {
			return
		}
		// With rdma_cm perftest connects twice and listens twice. The second connection may come before the second
		// listener.
		early := slices.Contains(server, "-R") && !own(server) &&
			strings.Contains(out, "RDMA_CM_EVENT_REJECTED; error: 8")
		// On a busy machine perftest may fail to measure the rate of its clock, and then prints no results.
		clock := strings.Contains(out, "Correlation coefficient r^2: ")
		if !early && !clock && !strings.Contains(out, testutil.RPingRace) || try == 3 {
			t.Errorf("%v\nserver %s\nclient %s\n%s", err, strings.Join(server, " "),
				strings.Join(client, " "), tail(out))
			return
		}
		t.Log("a stock program raced against itself or the machine's load, and lost: once more")
	}
}

// once runs the row one way. It returns the command, its output, and what is wrong with it.
func (r row) once(t *testing.T, w way) (server, client []string, out string, err error) {
	t.Helper()
	w.env = r.env
	w.removeDomains(t)
	p := strconv.Itoa(21000 + int(port.Add(1)))
	server, client = r.ends(w, p)
	args := append([]string{filepath.Join(root, ".build/bin/pair"), "-t", limit.String()}, r.pair...)
	args = append(args, awaited(server, p)...)
	args = append(append(append(args, server...), "--"), client...)
	flags := r.emu
	if !own(server) || !own(client) {
		flags = append([]string{"--strict-ignore=leak"}, flags...) // stock programs do not destroy all that they made
	}
	out, err = w.emulate(t, flags, args...)
	if err == nil {
		s, c := parts(out)
		if err = check(client, c, true); err == nil {
			err = check(server, s, false)
		}
		if err == nil && !strings.Contains(out, r.want) {
			err = fmt.Errorf("no %q", r.want)
		}
	}
	return server, client, out, err
}

// removeDomains removes the files of XRC domains that perftest has left for another user: they are closed to this one.
func (w way) removeDomains(t *testing.T) {
	t.Helper()
	uid, tmp := os.Getuid(), "/tmp"
	if w.nobody && uid == 0 {
		uid = 65534
	}
	if w.release != "" {
		tmp = filepath.Join(root, ".build/debian", w.release, "tmp")
	}
	files, err := filepath.Glob(filepath.Join(tmp, "xrc_domain*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if s, err := os.Stat(f); err == nil && s.Sys().(*syscall.Stat_t).Uid != uint32(uid) {
			if err := os.Remove(f); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// parts splits the output of pair.
func parts(out string) (server, client string) {
	_, out, _ = strings.Cut(out, "=== server: ")
	server, client, _ = strings.Cut(out, "=== client: ")
	return server, client
}

// tail shortens the output that a failed test shows.
func tail(s string) string {
	lines := strings.SplitAfter(s, "\n")
	for i, l := range lines {
		if len(l) > 200 {
			lines[i] = l[:200] + "...\n"
		}
	}
	failed := slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.Contains(l, "--- FAIL") })
	if len(lines) > 120 {
		lines = append(append(append(lines[:40:40], "...\n"), failed...), lines[len(lines)-80:]...)
	}
	return strings.Join(lines, "")
}
