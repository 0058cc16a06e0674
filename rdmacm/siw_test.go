package rdmacm

import (
	"errors"
	"fmt"
	"net"
	"os/exec"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestSIW runs tests that others run on other devices on iWARP, where the side that dials sends first.
func TestSIW(t *testing.T) {
	testutil.NeedSIW(t)
	for name, f := range map[string]func(*testing.T){
		"DialListen": TestRXE_CM_DialListen,
		"Many":       TestRXE_CM_Many,
		"PeerCloses": TestRXE_CM_PeerCloses,
	} {
		t.Run(name, f)
	}
}

// TestSIW_AnyAddress listens at [::], and is dialed by both families.
func TestSIW_AnyAddress(t *testing.T) {
	r := testutil.NeedSIW(t)
	l := closing(t, must(Listen(timeout(t), "[::]:0", nil))(t))
	for _, to := range []string{r.IP[0], linkLocal(t, r.Net[0])} {
		t.Run(to, func(t *testing.T) {
			type end struct {
				c   *Conn
				err error
			}
			got := make(chan end, 1)
			go func() {
				c, err := l.Accept(timeout(t))
				got <- end{c, err}
			}()
			a := closing(t, must(Dial(timeout(t), net.JoinHostPort(to, fmt.Sprint(l.Addr().Port())), nil))(t))
			e := <-got
			b := closing(t, must(e.c, e.err)(t))
			pingpong(t, rigOf(t, a), rigOf(t, b))
		})
	}
}

// linkLocal returns the IPv6 address of an interface, with its zone.
func linkLocal(t *testing.T, name string) string {
	t.Helper()
	ifi := must(net.InterfaceByName(name))(t)
	for _, a := range must(ifi.Addrs())(t) {
		if n, is := a.(*net.IPNet); is && n.IP.IsLinkLocalUnicast() && n.IP.To4() == nil {
			return n.IP.String() + "%" + name
		}
	}
	t.Fatalf("%s has no link-local address", name)
	return ""
}

// TestSIW_Lacks posts what iWARP lacks, and dials an address that no iWARP device has.
func TestSIW_Lacks(t *testing.T) {
	testutil.NeedSIW(t)
	l := server(t, nil)
	a, b := pair(t, l, nil)
	pingpong(t, rigOf(t, a), rigOf(t, b)) // the side that dials first
	for _, wr := range []ibv.SendWR{
		{Opcode: ibv.OpSendImm, Imm: 7},
		{Opcode: ibv.OpWriteImm, Imm: 7},
		{Opcode: ibv.OpFetchAdd, CompareAdd: 1, SGEs: []ibv.SGE{rigOf(t, a).mr.SGE(0, 8)}},
	} {
		var unsupported *ibv.UnsupportedError
		if _, err := a.QP().PostSend([]ibv.SendWR{wr}); !errors.As(err, &unsupported) {
			t.Errorf("%v: %v, want an *ibv.UnsupportedError", wr.Opcode, err)
		}
	}
	for _, to := range []string{"127.0.0.1:9", elsewhere(t)} {
		_, err := Dial(timeout(t), to, nil)
		var event *EventError
		if !errors.As(err, &event) && !errors.Is(err, ibv.ErrNoDevice) {
			t.Errorf("a dial of %s, which no device has: %v", to, err)
		}
		t.Log(err)
	}
}

// elsewhere returns a host in a network of an interface without a device.
func elsewhere(t *testing.T) string {
	t.Helper()
	ip := func(args ...string) {
		if out, err := exec.Command("/bin/ip", args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	ip("link", "add", "elsewhere", "type", "dummy")
	t.Cleanup(func() { ip("link", "del", "elsewhere") })
	ip("addr", "add", "10.9.9.1/24", "dev", "elsewhere")
	ip("link", "set", "elsewhere", "up")
	return "10.9.9.2:9"
}
