package rdma

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// outcome is what may become of a connection after a fault.
type outcome int

const (
	survives outcome = iota
	breaks
	either
)

// TestRXE_Faults injects each kind of fault at either end, while messages go both ways and while the connection is
// idle. Either everything arrives as it was sent, or both ends end with an error that names the peer or their device.
func TestRXE_Faults(t *testing.T) {
	r := testutil.NeedRXE(t)
	if !r.Emulated {
		t.Skip("injects faults: runs on the emulated device only (make test-emu)")
	}
	for _, f := range []struct {
		spec string
		want outcome
		long bool // seconds pass before it is noticed
	}{
		{"rnr:count=3", survives, false}, {"cqe-delayed:us=2000,count=5", survives, false},
		{"doorbell-lost:count=1", survives, true}, {"retry-exceeded:count=1", breaks, false},
		{"remote-access:count=1", breaks, false}, {"flush:count=1", breaks, false}, {"qp-fatal:count=1", breaks, false},
		{"cqe-lost:count=1", either, true}, {"wrong-owner:count=1", breaks, true}, {"cq-error:count=1", breaks, false},
	} {
		for end := range 2 {
			for _, busy := range []bool{true, false} {
				if !testutil.Full() && (f.long || !busy && (end == 0 || f.spec != "flush:count=1")) {
					continue
				}
				state := map[bool]string{true: "busy", false: "idle"}[busy]
				name := fmt.Sprintf("%s at %s %s", f.spec, r.Dev[end], state)
				t.Run(name, func(t *testing.T) {
					faulty(t, fmt.Sprintf("%s,device=%s", f.spec, r.Dev[end]), f.want, busy)
				})
			}
		}
	}
}

func faulty(t *testing.T, spec string, want outcome, busy bool) {
	r := testutil.NeedRXE(t)
	server, client := newEngines(t, &EngineOptions{Memory: 8 << 20})
	a, b := connsAlive(t, server, client, time.Second)
	defer a.Close()
	defer b.Close()
	echo(t, a, b)

	const messages = 400
	r.Fault(t, spec)
	if !busy && want == breaks { // the PING breaks it
		<-a.Done()
		<-b.Done()
	}
	errs := make(chan error, 4)
	for _, way := range [][2]*Conn{{a, b}, {b, a}} {
		go func() {
			for n := range messages {
				if err := way[0].Send(timeout(t), []byte(fmt.Sprint(n))); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
		go func() {
			for n := range messages {
				m, err := way[1].Recv(timeout(t))
				if err != nil {
					errs <- err
					return
				}
				if got := string(m.Bytes()); got != fmt.Sprint(n) {
					t.Errorf("message %d is %q", n, got)
				}
				m.Release()
			}
			errs <- nil
		}()
	}
	broken := 0
	for range 4 {
		err := <-errs
		var peer *PeerError
		var own *DeviceError
		switch {
		case err == nil:
			continue
		case errors.As(err, &own) && strings.Contains(spec, "device="+own.Device):
		case errors.As(err, &peer), errors.Is(err, ErrPeerClosed), isProtocol(err):
		default:
			t.Errorf("an end: %v, want a *PeerError, or a *DeviceError of the device with the fault", err)
		}
		broken++
	}
	if want == survives && broken > 0 || want == breaks && broken == 0 {
		t.Errorf("%d of 4 have failed; the ends: %v, %v", broken, a.Err(), b.Err())
	}
}

func isProtocol(err error) bool {
	var p *ProtocolError
	return errors.As(err, &p)
}

const childEnv = "PUREVERBS_TEST_RDMA_SERVER"

// child is the process of TestRXE_Killed: it echoes streams until it is killed.
func child(addr string) int {
	if arg, found := strings.CutPrefix(addr, "sleep "); found {
		return sleeper(arg)
	}
	if arg, found := strings.CutPrefix(addr, "handshake "); found {
		return stopAt(arg)
	}
	if at, found := strings.CutPrefix(addr, "borrow "); found {
		return borrower(at)
	}
	l, err := ListenStream(context.Background(), addr, nil)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return 1
		}
		go func() { _, _ = io.Copy(c, c) }()
	}
}

// TestRXE_Killed kills the peer's process with SIGKILL while data goes both ways, and stops it with SIGSTOP.
func TestRXE_Killed(t *testing.T) {
	r := testutil.NeedRXE(t)
	_, client := newEngines(t, nil)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+net.JoinHostPort(r.IP[0], "0"))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	addr, err := bufio.NewReader(out).ReadString('\n')
	ok(t, err)

	s, err := DialStream(timeout(t), strings.TrimSpace(addr), from(r, client))
	ok(t, err)
	defer s.Close()
	buf := make([]byte, 100_000)
	_, err = s.Write(buf)
	ok(t, err)
	_, err = io.ReadFull(s, buf)
	ok(t, err)

	// A stopped process reads nothing: writing waits, and goes on afterwards.
	ok(t, cmd.Process.Signal(syscall.SIGSTOP))
	ok(t, s.SetWriteDeadline(time.Now().Add(300*time.Millisecond)))
	written := 0
	for err = nil; err == nil; {
		var n int
		n, err = s.Write(buf)
		written += n
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("writing to a stopped process: %v, want the deadline", err)
	}
	ok(t, s.SetWriteDeadline(time.Time{}))
	ok(t, cmd.Process.Signal(syscall.SIGCONT))
	for written > 0 {
		n, err := s.Read(buf)
		ok(t, err)
		written -= n
	}

	ok(t, cmd.Process.Kill())
	for err = nil; err == nil; {
		_, err = s.Write(buf)
	}
	var peer *PeerError
	if !errors.As(err, &peer) || !errors.Is(err, ErrPeerGone) || peer.Peer != s.l.Remote {
		t.Errorf("writing to a killed process: %v, want a *PeerError", err)
	}
	if _, err := io.Copy(io.Discard, s); !errors.Is(err, ErrPeerGone) {
		t.Errorf("reading from a killed process: %v, want ErrPeerGone", err)
	}
}
