//go:build linux

package notify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/await"
	"github.com/pureverbs/pureverbs/emu/internal/guest"
)

// The test binary is supervisor, init, shim, and the programs as well.
func TestMain(m *testing.M) {
	Shim()
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	if name := os.Getenv("NOTIFY_PROGRAM"); name != "" {
		os.Exit(programs[name]())
	}
	os.Exit(m.Run())
}

const (
	toyPath  = "/dev/toy"
	toyIoctl = 0xc0181b01
)

// toy is a device: a file whose ioctl counts, whose write returns twice the length, whose fstat says a character
// device.
type toy struct {
	f     *guest.File
	count atomic.Int64
	op    [16]atomic.Int64

	slow     atomic.Int64  // calls of 0x510 that came
	allSlow  chan struct{} // closed when slowCalls came
	slowDone chan struct{} // closed to answer them
}

func newToy(t testing.TB) *toy {
	f, err := guest.NewFile("toy", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &toy{f: f, allSlow: make(chan struct{}), slowDone: make(chan struct{})}
}

func (y *toy) handle(c *Call) {
	y.op[c.Op].Add(1)
	switch c.Op {
	case OpWrite, OpFstat, OpMmap:
		if guest.FDName(c.TID, c.FD()) != y.f.Name() {
			c.Continue()
			return
		}
	}
	switch c.Op {
	case OpOpen, OpStat, OpAccess, OpReadlink, OpXattr:
		p, err := c.Path()
		p = filepath.Clean(p)
		switch {
		case err != nil || p != toyPath && p != toyPath+"-sys":
			c.Continue()
		case c.Op == OpOpen && p == toyPath:
			g, err := y.f.Open()
			if err != nil {
				c.Errno(unix.EIO)
				return
			}
			c.AddFD(int(g.Fd()), int(c.Args[2]))
			g.Close()
		case c.Op == OpOpen:
			g, _ := os.Open("/proc/self/stat")
			c.AddFD(int(g.Fd()), unix.O_CLOEXEC)
			g.Close()
		case c.Op == OpStat:
			c.ReturnStat(&toyStat)
		case c.Op == OpXattr:
			c.Errno(unix.ENODATA)
		case c.Op == OpAccess:
			c.Return(0)
		default:
			c.Errno(unix.EINVAL)
		}
	case OpIoctl:
		switch c.Args[2] {
		case 0xdead:
			panic("a handler's mistake")
		case 0x510:
			if y.slow.Add(1) == slowCalls {
				close(y.allSlow)
			}
			answerAfter(c, y.slowDone)
		case 0x511:
			answerAfter(c, y.allSlow)
		case 0x512:
			close(y.slowDone)
			c.Return(0)
		case 0xbeef: // later, by another
			go c.Return(77)
		default:
			c.Return(y.count.Add(1))
		}
	case OpWrite:
		c.Return(int64(c.Args[2]) * 2)
	case OpSocket:
		c.Errno(unix.EPROTONOSUPPORT)
	case OpFstat:
		c.ReturnStat(&toyStat)
	case OpMmap:
		if c.Args[1] != 4096 {
			c.Errno(unix.EINVAL)
		} else {
			c.Continue()
		}
	default:
		c.Continue()
	}
}

// answerAfter returns 0 after an event.
func answerAfter(c *Call, event chan struct{}) {
	select {
	case <-event:
		c.Return(0)
	case <-time.After(await.Limit / 2):
		c.Errno(unix.ETIMEDOUT)
	}
}

var toyStat = unix.Stat_t{Mode: unix.S_IFCHR | 0o666, Rdev: unix.Mkdev(231, 192), Ino: 4711, Nlink: 1, Blksize: 4096}

// trial is a run of a program and what came of it.
type trial struct {
	cfg  Config
	toy  *toy
	s    *Session
	read chan struct{}

	outMu sync.Mutex
	out   bytes.Buffer
}

// launch starts a program of this file, or any other by its path.
func launch(t testing.TB, y *toy, argv ...string) *trial {
	t.Helper()
	r := &trial{toy: y, read: make(chan struct{})}
	r.cfg = Config{Argv: argv, IoctlCmds: []uint32{toyIoctl}, TrapNetlink: []int{unix.NETLINK_RDMA}}
	if programs[argv[0]] != nil {
		r.cfg.Env = append(os.Environ(), "NOTIFY_PROGRAM="+argv[0])
		r.cfg.Argv = append([]string{"/proc/self/exe"}, argv[1:]...)
	}
	pr, pw, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.cfg.Stdout, r.cfg.Stderr = pw, pw
	r.s, err = Start(r.cfg, y.handle)
	pw.Close()
	if p := (*ProbeError)(nil); errors.As(err, &p) {
		t.Skip("skipped: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.read)
		_, _ = io.Copy(r, pr)
		pr.Close()
	}()
	return r
}

// Write keeps what the program prints.
func (r *trial) Write(b []byte) (int, error) {
	r.outMu.Lock()
	defer r.outMu.Unlock()
	return r.out.Write(b)
}

func (r *trial) wait(t testing.TB) (int, string) {
	t.Helper()
	code, err := r.s.Wait()
	if err != nil {
		t.Error(err)
	}
	<-r.read
	return code, r.out.String()
}

// silent runs a program that says only what is wrong.
func silent(t *testing.T, argv ...string) *toy {
	t.Helper()
	y := newToy(t)
	if code, out := launch(t, y, argv...).wait(t); code != 0 || strings.TrimSpace(out) != "" {
		t.Errorf("%q: exit code %d, output:\n%s", argv, code, out)
	}
	return y
}

func TestDevice(t *testing.T) { silent(t, "device") }

// A device is one by what it is, not by its number.
func TestPassing(t *testing.T) { silent(t, "passing") }

// A handler that takes its time does not keep others waiting.
func TestSlowHandler(t *testing.T) { silent(t, "slow") }

func TestHostile(t *testing.T) { silent(t, "hostile") }

// A signal that interrupts a call must not have it carried out twice.
func TestSignalStorm(t *testing.T) {
	y := silent(t, "storm")
	if n := y.count.Load(); n != stormCalls {
		t.Errorf("%d calls were carried out, want %d", n, stormCalls)
	}
}

func TestFamily(t *testing.T) {
	y := silent(t, "family")
	// four threads, a child by exec, and its child
	if n := y.count.Load(); n != 4*100+2*3 {
		t.Errorf("%d ioctls, want %d", n, 4*100+2*3)
	}
}

func TestExitCode(t *testing.T) {
	y := newToy(t)
	for script, want := range map[string]int{
		"exit 0": 0, "exit 3": 3, "kill -SEGV $$": 139, "kill -KILL $$": 137, "sleep 10000 & exit 5": 5,
		"(trap '' TERM INT HUP; sleep 10000) & exit 6":                                  6,
		"setsid sh -c \"trap '' TERM; while :; do sleep 1; done\" & sleep 0.05; exit 7": 7,
	} {
		start := time.Now()
		r := launch(t, y, "/bin/sh", "-c", script)
		if code, out := r.wait(t); code != want || out != "" {
			t.Errorf("%s: exit code %d, want %d; output %q", script, code, want, out)
		}
		if d := time.Since(start); d > await.Limit {
			t.Errorf("%s: took %v", script, d)
		}
		if left := descendants(os.Getpid()); len(left) != 0 {
			t.Errorf("%s: processes %v are left", script, left)
		}
		if err := r.s.Signal(unix.SIGTERM); !errors.Is(err, os.ErrProcessDone) {
			t.Errorf("a signal after the end: %v", err)
		}
	}
}

func TestForkBomb(t *testing.T) {
	// At most 60 processes at once, each of which starts two more and survives SIGTERM.
	dir := t.TempDir()
	script := `bomb() { trap '' TERM; n=$(ls ` + dir + ` | wc -l); [ $n -lt 60 ] || { sleep 10000; exit; }; : >` + dir +
		`/$(cat /proc/self/stat | cut -d' ' -f4)-$n-$1; bomb 1 & bomb 2 & sleep 10000; }; bomb 0 & sleep 0.3; exit 9`
	start := time.Now()
	code, _ := launch(t, newToy(t), "/bin/sh", "-c", script).wait(t)
	if code != 9 {
		t.Errorf("exit code %d, want 9", code)
	}
	if left := descendants(os.Getpid()); len(left) != 0 {
		t.Errorf("processes %v are left", left)
	}
	if d := time.Since(start); d > await.Limit {
		t.Errorf("took %v", d)
	}
}

func TestSignals(t *testing.T) {
	y := newToy(t)
	r := launch(t, y, "/bin/sh", "-c", "trap 'echo got; exit 4' INT; echo ready; while :; do sleep 0.01; done")
	await.Eventually(t, "the shell is ready", func() bool {
		r.outMu.Lock()
		defer r.outMu.Unlock()
		return r.out.Len() > 0
	})
	if err := r.s.Signal(unix.SIGINT); err != nil {
		t.Error(err)
	}
	if code, out := r.wait(t); code != 4 || out != "ready\ngot\n" {
		t.Errorf("exit code %d, output %q", code, out)
	}
	r = launch(t, y, "/bin/sleep", "60")
	_ = r.s.Signal(unix.SIGKILL)
	if code, _ := r.wait(t); code != 137 {
		t.Errorf("killed: exit code %d, want 137", code)
	}
}

func TestPanic(t *testing.T) {
	y := newToy(t)
	var panics atomic.Int32
	r := &trial{}
	r.cfg = Config{Argv: []string{"/proc/self/exe"}, Env: append(os.Environ(), "NOTIFY_PROGRAM=panicking"),
		IoctlCmds: []uint32{toyIoctl},
		OnPanic: func(c *Call, v any, stack []byte) {
			if c.Op == OpIoctl && v == "a handler's mistake" && bytes.Contains(stack, []byte("handle")) {
				panics.Add(1)
			}
		}}
	s, err := Start(r.cfg, y.handle)
	if err != nil {
		t.Fatal(err)
	}
	if code, err := s.Wait(); code != int(unix.EIO) || err != nil {
		t.Errorf("the program got errno %d, %v; want EIO", code, err)
	}
	if panics.Load() != 1 {
		t.Errorf("%d panics were reported, want 1", panics.Load())
	}
}

// A trapped call between the filter and the exec would wait for an answer that nobody gives.
func TestLargeEnvironment(t *testing.T) {
	const most = 15 // of 120 KiB; the kernel takes 2 MiB
	env := os.Environ()
	for i := range most {
		env = append(env, "LARGE"+strconv.Itoa(i)+"="+strings.Repeat("x", 120<<10))
	}
	for range 8 {
		s, err := Start(Config{Argv: []string{"true"}, Env: env}, (*Call).Continue)
		if err != nil {
			t.Fatal(err)
		}
		if code, err := s.Wait(); code != 0 || err != nil {
			t.Errorf("exit code %d, %v", code, err)
		}
	}
}

func TestStartErrors(t *testing.T) {
	y := newToy(t)
	if _, err := Start(Config{}, y.handle); err == nil {
		t.Error("no program: no error")
	}
	if _, err := Start(Config{Argv: []string{"no-such-program-here"}}, y.handle); err == nil &&
		!errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such program: %v", err)
	}
	if _, err := Start(Config{Argv: []string{"/no/such/program"}}, y.handle); !errors.Is(err, unix.ENOENT) {
		t.Errorf("no such file: %v", err)
	}
	if _, err := Start(Config{Argv: []string{"/etc/passwd"}}, y.handle); !errors.Is(err, unix.EACCES) {
		t.Errorf("not executable: %v", err)
	}
	if err := Probe(); err != nil {
		t.Error(err)
	}
}

// What a program inherits it gets as without a supervisor: descriptors, the limit of them, ignored signals, the folder,
// the environment.
func TestInheritance(t *testing.T) {
	const script = `ulimit -n; echo -n from 9: >&9; pwd; echo $NOTIFY_X; ` +
		`grep -c 'SigIgn:.*1$' /proc/self/status; ls /proc/self/fd | tr '\n' ' '`
	run := func(argv ...string) string {
		c := exec.Command("/bin/sh", append([]string{"-c",
			`ulimit -S -n 256; trap '' HUP; cd /usr; exec 9>&1; NOTIFY_X=y exec "$@"`, "-"}, argv...)...)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Errorf("%q: %v", argv, err)
		}
		return string(out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := run("/bin/sh", "-c", script)
	for _, net := range []string{"NOTIFY_X=y", "NOTIFY_NET=1"} {
		if net == "NOTIFY_NET=1" {
			needNet(t)
		}
		if got := run("/usr/bin/env", "NOTIFY_PROGRAM=supervisor", net, self, "/bin/sh", "-c", script); got != want {
			t.Errorf("%s: output\n%swant\n%s", net, got, want)
		}
	}
}

// supervised runs the test binary as a supervisor of its own.
func supervised(t *testing.T, uid uint32, argv ...string) *exec.Cmd {
	t.Helper()
	c := exec.Command("/proc/self/exe", argv...)
	c.Env = append(os.Environ(), "NOTIFY_PROGRAM=supervisor")
	if uid != 0 {
		if os.Getuid() != 0 {
			t.Skip("skipped: as root, make test-unit runs it: it takes root to become another user")
		}
		// A folder of the user's own: the test binary is where only root may look.
		self, err := os.ReadFile("/proc/self/exe")
		if err != nil {
			t.Fatal(err)
		}
		dir, err := os.MkdirTemp("/tmp", "notify")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := errors.Join(os.Chmod(dir, 0o755), os.WriteFile(dir+"/t", self, 0o755)); err != nil {
			t.Fatal(err)
		}
		c.Path, c.Dir = dir+"/t", "/"
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	return c
}

func TestNobody(t *testing.T) {
	c := supervised(t, 65534, "device")
	if out, err := c.CombinedOutput(); err != nil || len(out) != 0 {
		t.Errorf("%v, output %q", err, out)
	}
}

// needNet is for what takes a network of the program's own.
func needNet(t *testing.T) {
	t.Helper()
	n, err := NewNet("@notify-probe-" + strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Skip("skipped: ", err)
	}
	n.Close()
}

// A network of its own leads nowhere, whoever starts it, and gives the program no rights.
func TestNet(t *testing.T) {
	needNet(t)
	const script = `tail -n +3 /proc/net/dev
grep -c 'Cap\(Inh\|Amb\).*0000000000000000' /proc/self/status; id -u; exec "$0"`
	for _, uid := range []uint32{0, 65534} {
		want := fmt.Sprint(uid)
		if me := os.Geteuid(); me != 0 {
			if uid != 0 {
				continue // it takes root to become another user
			}
			want = fmt.Sprint(me)
		}
		c := supervised(t, uid, "/bin/sh", "-c", script, "/proc/self/exe")
		c.Args[len(c.Args)-1] = c.Path
		if uid == 0 {
			c.Args[len(c.Args)-1], _ = os.Executable()
		}
		c.Args = append(c.Args[:1], append([]string{"/usr/bin/env", "NOTIFY_PROGRAM=device"}, c.Args[1:]...)...)
		c.Env = append(c.Env, "NOTIFY_NET=1")
		out, err := c.CombinedOutput()
		lines := strings.Split(string(out), "\n")
		if err != nil || len(lines) != 4 || !strings.HasPrefix(strings.TrimSpace(lines[0]), "lo:") || lines[1] != "2" ||
			lines[2] != want {
			t.Errorf("user %s: %v, output\n%s", want, err, out)
		}
	}
}

// A network that no program is started in goes away.
func TestNet_Unused(t *testing.T) {
	before := fds()
	n, err := NewNet("@notify-unused-" + strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Skip("skipped: ", err)
	}
	pid := n.pid
	n.Close()
	if err := unix.Kill(pid, 0); err != unix.ESRCH {
		t.Errorf("its process is still there: %v", err)
	}
	if after := fds(); after != before {
		t.Errorf("%d descriptors, %d before", after, before)
	}
	if _, err := Start(Config{Argv: []string{"/bin/true"}, Net: n}, newToy(t).handle); err == nil {
		t.Error("a program was started in what is closed")
	}
}

func TestNested(t *testing.T) {
	c := supervised(t, 0, "/usr/bin/env", "NOTIFY_PROGRAM=supervisor", "/proc/self/exe", "device")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c.Args[3] = self
	out, err := c.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "under another") {
		t.Errorf("%v, output %q; want the reason", err, out)
	}
}

// running are the processes that have mark in their environment.
func running(mark string) (pids []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, f := range dirs {
		if b, err := os.ReadFile(f); err == nil && bytes.Contains(b, []byte(mark)) {
			pids = append(pids, f)
		}
	}
	return pids
}

func TestSupervisorSignals(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGKILL} {
		if signal.Ignored(sig) { // as below nohup, and a shell cannot trap what it got ignored
			signal.Notify(make(chan os.Signal, 1), sig) // the default for what is started
			defer signal.Ignore(sig)
		}
		mark := fmt.Sprintf("NOTIFY_MARK=%d-%d", os.Getpid(), sig)
		c := supervised(t, 0, "/bin/sh", "-c", "trap '' TERM; (trap '' HUP INT TERM; sleep 100 & setsid sleep 100) & "+
			"trap 'exit 21' INT TERM HUP; echo ready; while :; do sleep 0.01; done")
		c.Env = append(c.Env, mark)
		c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := c.StdoutPipe()
		if err == nil {
			err = c.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = out.Read(make([]byte, 10))
		_ = c.Process.Signal(sig)
		err = c.Wait()
		if code := c.ProcessState.ExitCode(); code != 21 && sig != unix.SIGKILL {
			t.Errorf("%v: %v, want exit code 21", sig, err)
		}
		await.Eventually(t, fmt.Sprintf("nothing is left after %v", sig), func() bool {
			return len(running(mark)) == 0
		})
	}
}

func fds() int {
	names, _ := os.ReadDir("/proc/self/fd")
	return len(names)
}

// Nothing stays behind in the supervisor. NOTIFY_LEAK=1000 tries longer.
func TestLeaks(t *testing.T) {
	y := newToy(t)
	n := 20
	if s := os.Getenv("NOTIFY_LEAK"); s != "" {
		n, _ = strconv.Atoi(s)
	}
	launch(t, y, "device").wait(t)
	before, goroutines := fds(), runtime.NumGoroutine()
	for range n {
		y.count.Store(0)
		if code, out := launch(t, y, "device").wait(t); code != 0 || out != "" {
			t.Fatal(code, out)
		}
	}
	await.Eventually(t, fmt.Sprintf("at most %d descriptors after %d programs", before, n),
		func() bool { return fds() <= before })
	await.Eventually(t, fmt.Sprintf("at most %d goroutines after %d programs", goroutines, n),
		func() bool { return runtime.NumGoroutine() <= goroutines })
}

func BenchmarkStart(b *testing.B) {
	y := newToy(b)
	for b.Loop() {
		launch(b, y, "/bin/true").wait(b)
	}
}

// BenchmarkAccess is the price of a call that is trapped and let through, and of an ioctl that is answered.
func BenchmarkCalls(b *testing.B) {
	for _, name := range []string{"access", "ioctl", "native"} {
		b.Run(name, func(b *testing.B) {
			r := launch(b, newToy(b), "calling", name, strconv.Itoa(b.N))
			_, out := r.wait(b)
			ns, err := strconv.ParseFloat(strings.TrimSpace(out), 64)
			if err != nil {
				b.Fatal(out)
			}
			b.ReportMetric(ns, "ns/op")
		})
	}
}
