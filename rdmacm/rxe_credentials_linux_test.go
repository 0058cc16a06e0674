package rdmacm

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// credentialsEnv makes a test binary a child of asChanged's.
const credentialsEnv = "PUREVERBS_TEST_CREDENTIALS"

// alone runs the test again in a process of its own, which may change its credentials, and reports whether this is it.
func alone(t *testing.T) bool {
	t.Helper()
	testutil.NeedRXE(t)
	if os.Getenv(credentialsEnv) == t.Name() {
		return true
	}
	if os.Geteuid() != 0 {
		t.Skip("changes credentials: needs root")
	}
	var path []string
	for name := range strings.SplitSeq(t.Name(), "/") {
		path = append(path, "^"+name+"$")
	}
	cmd := exec.Command(must(os.Executable())(t), "-test.run="+strings.Join(path, "/"), "-test.v", "-test.count=1")
	cmd.Env = append(os.Environ(), credentialsEnv+"="+t.Name())
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// changes give each thread of a Go program credentials of its own.
var changes = map[string]func() error{
	"Setgroups": func() error { return syscall.Setgroups([]int{0, 1}) },
	"Setgid":    func() error { return syscall.Setgid(0) },
	"Setegid":   func() error { return syscall.Setegid(0) },
	"Setregid":  func() error { return syscall.Setregid(0, 0) },
	"Setresgid": func() error { return syscall.Setresgid(0, 0, 0) },
	"Setuid":    func() error { return syscall.Setuid(0) },
	"Seteuid":   func() error { return syscall.Seteuid(0) },
	"Setreuid":  func() error { return syscall.Setreuid(0, 0) },
	"Setresuid": func() error { return syscall.Setresuid(0, 0, 0) },
}

// spread makes goroutines run on several threads, so that the next call is seldom on the thread of the last.
func spread(t *testing.T) {
	stop := make(chan struct{})
	for range 4 {
		go func() {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
					_ = unix.Nanosleep(&unix.Timespec{Nsec: 100_000}, nil)
				}
			}
		}()
	}
	t.Cleanup(func() { close(stop) })
}

// talk sends a message over a connection each way.
func talk(t *testing.T, a, b *Conn) {
	t.Helper()
	for _, d := range [][2]*Conn{{a, b}, {b, a}} {
		to := must(d[1].PD().AllocMR(64, ibv.LocalWrite, nil))(t)
		must(d[1].QP().PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{to.SGE(0, 64)}}}))(t)
		must(d[0].QP().PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled, Inline: []byte("hello")}}))(t)
		for _, c := range d {
			var wc [1]ibv.WC
			must(c.CQ().Wait(timeout(t), wc[:]))(t)
			ok(t, wc[0].Err())
		}
		if got := string(to.Bytes()[:5]); got != "hello" {
			t.Errorf("received %q", got)
		}
		ok(t, to.Close())
	}
}

// TestRXE_CM_Credentials changes the credentials of a process before it uses rdma_cm, between its uses, and again.
func TestRXE_CM_Credentials(t *testing.T) {
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			if !alone(t) {
				return
			}
			spread(t)
			ok(t, change())
			l := must(Listen(timeout(t), local(t).String(), nil))(t)
			connect := func() (c, s *Conn) {
				accepted := make(chan *Conn, 1)
				go func() {
					s, err := l.Accept(timeout(t))
					if err != nil {
						t.Errorf("accept: %v", err)
					}
					accepted <- s
				}()
				c, err := Dial(timeout(t), l.Addr().String(), nil)
				if err != nil {
					t.Errorf("dial: %v", err)
				}
				s = <-accepted
				if c == nil || s == nil {
					t.FailNow()
				}
				return c, s
			}
			var conns [][2]*Conn
			for range 3 {
				for range 4 {
					c, s := connect()
					conns = append(conns, [2]*Conn{c, s})
				}
				for _, c := range conns {
					talk(t, c[0], c[1])
				}
				ok(t, change())
				for _, c := range conns {
					talk(t, c[0], c[1])
				}
			}
			for _, c := range conns {
				ok(t, c[0].Shutdown(timeout(t)))
				<-c[1].Done()
				ok(t, c[0].Close())
				ok(t, c[1].Close())
			}
			ok(t, l.Close())
			t.Logf("files %v", files(t))
		})
	}
}

// files are the open files of rdma_cm.
func files(t *testing.T) (list []string) {
	for _, e := range must(os.ReadDir("/proc/self/fd"))(t) {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			list = append(list, to)
		}
	}
	slices.Sort(list)
	return list
}

var _ = errors.New
var _ = fmt.Sprint
var _ netip.AddrPort
var _ time.Duration
