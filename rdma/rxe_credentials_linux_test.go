package rdma

import (
	"io"
	"net"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_Credentials changes the credentials of a process before the first Listen, and while connections, streams and
// packet sockets are open. All go on, and new ones are made.
func TestRXE_Credentials(t *testing.T) {
	needLogic(t) // rdmacm has it in the VM
	r := testutil.NeedRXE(t)
	if !testutil.Alone(t) {
		return
	}
	testutil.OnThreads(t)
	changes := testutil.Changes
	ok(t, changes[0].Do())
	server, client := smallEngines(t)
	at := net.JoinHostPort(r.IP[0], "0")
	l, err := Listen(timeout(t), at, &Options{Engine: server})
	ok(t, err)
	ls, err := ListenStream(timeout(t), at, &Options{Engine: server})
	ok(t, err)
	pa, pb := packets(t, server, client)
	var conns [][2]*Conn
	var streams [][2]*Stream
	for i, change := range changes {
		if i%2 == 0 {
			a, err := Dial(timeout(t), l.Addr().String(), from(r, client))
			ok(t, err)
			b, err := l.Accept(timeout(t))
			ok(t, err)
			conns = append(conns, [2]*Conn{a, b})
		} else {
			a, err := DialStream(timeout(t), ls.Addr().String(), from(r, client))
			ok(t, err)
			b, err := ls.AcceptStream(timeout(t))
			ok(t, err)
			streams = append(streams, [2]*Stream{a, b})
		}
		ok(t, change.Do())
		for _, c := range conns {
			ok(t, c[0].Send(timeout(t), []byte(change.Name)))
			m, err := c[1].Recv(timeout(t))
			ok(t, err)
			if string(m.Bytes()) != change.Name {
				t.Errorf("received %q", m.Bytes())
			}
			m.Release()
		}
		for _, s := range streams {
			got := make([]byte, len(change.Name))
			_, err := s[1].Write([]byte(change.Name))
			ok(t, err)
			_, err = io.ReadFull(s[0], got)
			ok(t, err)
		}
		forget(t, pb)
		_, err := pb.WriteTo([]byte(change.Name), pa.LocalAddr())
		ok(t, err)
		expect(t, pa, []byte(change.Name))
	}
	for _, c := range conns {
		ok(t, c[0].Close())
		if _, err := c[1].Recv(timeout(t)); err != io.EOF {
			t.Errorf("the other end: %v", err)
		}
		ok(t, c[1].Close())
	}
	for _, s := range streams {
		ok(t, s[1].Close()) // which waits until what it wrote has arrived
		if _, err := s[0].Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the other end: %v", err)
		}
		ok(t, s[0].Close())
	}
	ok(t, l.Close())
	ok(t, ls.Close())
}
