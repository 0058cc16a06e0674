package rdma

import (
	"net"
	"testing"

	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestRXE_BlocksOfIdleSenders has connections send a little and fall idle. The blocks of what they sent must not stay
// with them until their next completion: there are fewer blocks than that.
func TestRXE_BlocksOfIdleSenders(t *testing.T) {
	server, _ := newEngines(t, nil)
	_, small := newEngines(t, &EngineOptions{Memory: slabSize}) // 126 blocks, some of them for receiving
	r := testutil.NeedRXE(t)
	ctx := timeout(t)
	opt := from(r, small)
	opt.KeepAlive = -1 // its PINGs would bring the completions
	l, err := Listen(ctx, net.JoinHostPort(r.IP[0], "0"), &Options{Engine: server})
	ok(t, err)
	defer l.Close()
	p := make([]byte, 100)
	for range 30 {
		a, err := Dial(ctx, l.Addr().String(), opt)
		ok(t, err)
		defer a.Close()
		b, err := l.Accept(ctx)
		ok(t, err)
		defer b.Close()
		for range 5 {
			ok(t, a.Send(ctx, p))
			m, err := b.Recv(ctx)
			ok(t, err)
			m.Release()
		}
	}
}
