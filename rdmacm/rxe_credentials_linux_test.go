package rdmacm

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

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

// connect makes a connection to a listener of the same process.
func connect(t *testing.T, l *Listener) (c, s *Conn) {
	t.Helper()
	accepted, failed := make(chan *Conn, 1), make(chan error, 1)
	go func() {
		s, err := l.Accept(timeout(t))
		accepted <- s
		failed <- err
	}()
	c, err := Dial(timeout(t), l.Addr().String(), nil)
	if s = <-accepted; err != nil || s == nil {
		t.Fatalf("dial: %v; accept: %v", err, <-failed)
	}
	return c, s
}

// cmFiles returns how many files of rdma_cm are open. On the emulated device they look like pipes, as others do.
func cmFiles(t *testing.T) (n int) {
	t.Helper()
	_, release, err := Devices() // which librdmacm keeps open from then on
	ok(t, err)
	release()
	for _, e := range must(os.ReadDir("/proc/self/fd"))(t) {
		to, _ := os.Readlink("/proc/self/fd/" + e.Name())
		if strings.HasSuffix(to, "/rdma_cm") || strings.HasPrefix(to, "pipe:") {
			n++
		}
	}
	return n
}

// TestRXE_CM_Credentials changes the credentials of a process before it uses rdma_cm, and after each step, by each call
// that can.
func TestRXE_CM_Credentials(t *testing.T) {
	testutil.NeedRXE(t)
	if !testutil.Alone(t) {
		return
	}
	files, goroutines := cmFiles(t), runtime.NumGoroutine()
	testutil.OnThreads(t)
	changes := testutil.Changes
	ok(t, changes[0].Do())
	l := must(Listen(timeout(t), local(t).String(), nil))(t)
	var conns [][2]*Conn
	for _, change := range changes {
		t.Log(change.Name)
		c, s := connect(t, l)
		conns = append(conns, [2]*Conn{c, s})
		ok(t, change.Do())
		for _, c := range conns {
			talk(t, c[0], c[1])
		}
	}
	for i, c := range conns {
		ok(t, changes[i].Do())
		ok(t, c[0].Shutdown(timeout(t)))
		<-c[1].Done()
		if err := c[1].Err(); !errors.Is(err, ErrDisconnected) {
			t.Errorf("connection %d ended with %v", i, err)
		}
		ok(t, changes[i].Do())
		ok(t, c[0].Close())
		ok(t, c[1].Close())
	}
	ok(t, changes[0].Do())
	ok(t, l.Close())
	testutil.Eventually(t, "the files are closed", func() bool { return cmFiles(t) == files })
	testutil.Eventually(t, "the threads have ended", func() bool { return runtime.NumGoroutine() <= goroutines+4 })
}

// TestRXE_CM_CredentialsPending changes the credentials while peers wait for a listener to read their requests: none is
// lost.
func TestRXE_CM_CredentialsPending(t *testing.T) {
	testutil.NeedRXE(t)
	if !testutil.Alone(t) {
		return
	}
	const n = 5
	ch, peers := newChannel(t), newChannel(t)
	_, addr := listener(t, ch, PortSpaceTCP, n)
	for range n {
		id := resolved(t, peers, PortSpaceTCP, addr)
		ok(t, id.Connect(newRig(t, id, false).param("")))
	}
	fds := []unix.PollFd{{Fd: int32(ch.lib.ChannelFD(ch.file.handle)), Events: unix.POLLIN}}
	testutil.Eventually(t, "requests", func() bool { return must(unix.Poll(fds, 0))(t) == 1 })
	ok(t, syscall.Setgroups(nil))
	for range n {
		id := event(t, ch, EventConnectRequest).ID
		ok(t, id.Reject([]byte("seen")))
		ok(t, id.Close())
	}
	for range n {
		ev := event(t, peers, EventRejected)
		if e := refused(t, ev.Err(), RejectConsumer); string(e.PrivateData[:4]) != "seen" {
			t.Errorf("the kernel refused a request: %v", e)
		}
	}
}

// TestRXE_CM_CredentialsEach changes the credentials before each event of tests that call all functions of librdmacm.
// No other goroutine is in librdmacm then: a change within a function of two commands may make it fail.
func TestRXE_CM_CredentialsEach(t *testing.T) {
	testutil.NeedRXE(t)
	if !testutil.Alone(t) {
		return
	}
	testutil.OnThreads(t)
	n := 0
	beforeEvent = func() {
		ok(t, testutil.Changes[n%len(testutil.Changes)].Do())
		n++
	}
	for _, f := range []struct {
		name string
		test func(*testing.T)
	}{
		{"Connect", TestRXE_CM_Connect}, {"Datagrams", TestRXE_CM_Datagrams}, {"Multicast", TestRXE_CM_Multicast},
		{"Options", TestRXE_CM_Options}, {"Migrate", TestRXE_CM_Migrate}, {"ECE", TestRXE_CM_ECE},
		{"Endpoints", TestRXE_CM_Endpoints}, {"Reject", TestRXE_CM_Reject}, {"TooEarly", TestRXE_CM_TooEarly},
		{"PortInUse", TestRXE_CM_PortInUse}, {"Order", TestRXE_CM_Order}, {"CloseInGroup", TestRXE_CM_CloseInGroup},
		{"CloseInEachState", TestRXE_CM_CloseInEachState}, {"NewerLibrary", TestRXE_CM_NewerLibrary},
		{"QPOfAnotherContext", TestRXE_CM_QPOfAnotherContext}, {"XRC", TestRXE_CM_XRC},
		{"DialDatagrams", TestRXE_CM_DialDatagrams},
	} {
		beforeEvent()
		t.Run(f.name, f.test)
	}
	t.Logf("%d changes", n)
}

// TestRXE_CM_CredentialsStuck changes the credentials of a process that has no descriptor left to open rdma_cm again.
// Nothing hangs, the errors say why, and what is closed leaves no file behind. Afterwards new connections work.
func TestRXE_CM_CredentialsStuck(t *testing.T) {
	r := testutil.NeedRXE(t)
	r.NeedKernel(t) // strict mode reports the IDs that the kernel destroys with their file
	if !testutil.Alone(t) {
		return
	}
	files := cmFiles(t)
	testutil.OnThreads(t)
	l := must(Listen(timeout(t), local(t).String(), nil))(t)
	c, s := connect(t, l)
	c2, s2 := connect(t, l)
	ch := must(NewEventChannel())(t)
	id := must(ch.CreateID(PortSpaceTCP))(t)
	at := local(t)

	var limit unix.Rlimit
	ok(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	ok(t, syscall.Setgroups(nil))
	ok(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 3, Max: limit.Max})) // which are open
	refused := func(op string, err error) {
		t.Helper()
		var e *ibv.CredentialsError
		if !errors.As(err, &e) || !errors.Is(err, syscall.EACCES) || !errors.Is(err, syscall.EMFILE) {
			t.Errorf("%s: %v", op, err)
		}
	}
	refused("bind", id.Bind(at))
	_, err := ch.Event(timeout(t))
	refused("event", err)
	refused("create", second(ch.CreateID(PortSpaceTCP)))
	refused("dial", second(Dial(timeout(t), l.Addr().String(), nil)))
	refused("disconnect", c.ID().Disconnect())
	talk(t, c2, s2) // what needs no call of rdma_cm goes on

	ok(t, id.Close())
	ok(t, ch.Close())
	ok(t, c.Close())
	ok(t, c2.Close()) // with which the file of those that dial is closed: the other end gets events
	refused("accept", second(l.Accept(timeout(t))))
	<-s.Done()
	if gone := (*EventReadError)(nil); !errors.As(s.Err(), &gone) {
		t.Errorf("the accepted connection ended with %v", s.Err())
	}
	for _, c := range []*Conn{s, s2} {
		ok(t, c.Close())
	}
	ok(t, l.Close())
	ok(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit))

	l = must(Listen(timeout(t), local(t).String(), nil))(t)
	c, s = connect(t, l)
	talk(t, c, s)
	ok(t, c.Close())
	ok(t, s.Close())
	ok(t, l.Close())
	testutil.Eventually(t, "the files are closed", func() bool { return cmFiles(t) == files })
}

// second returns the error of a call that has another result.
func second[T any](_ T, err error) error { return err }
