package rdma

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// TestSIW runs tests that others run on other devices on iWARP.
func TestSIW(t *testing.T) {
	testutil.NeedSIW(t)
	for name, f := range map[string]func(*testing.T){
		"Batch":        TestRXE_Batch,
		"Busy":         TestRXE_Busy,
		"CancelDial":   TestRXE_CancelDial,
		"HalfClose":    TestRXE_HalfClose,
		"Lease":        TestRXE_Lease,
		"LeaseCancel":  TestRXE_LeaseCancel,
		"LeaseEnds":    TestRXE_LeaseEnds,
		"LeaseExpires": TestRXE_LeaseExpires,
		"ManualLease":  TestRXE_ManualLease,
		"Messages":     TestRXE_Messages,
		"NetConn":      TestRXE_NetConn,
		"Packed":       TestRXE_Packed,
		"SendBuffer":   TestRXE_SendBuffer,
		"Stream":       TestRXE_Stream,
		"StreamDone":   TestRXE_StreamDone,
		"WriteBuffers": TestRXE_WriteBuffers,
	} {
		t.Run(name, f)
	}
}

// TestSIW_Imm sends numbers with messages and behind a write: frames carry them, not immediate data.
func TestSIW_Imm(t *testing.T) {
	testutil.NeedSIW(t)
	server, client := newEngines(t, nil)
	a, b := leaseConns(t, server, client, &LeaseOptions{}, &LeaseOptions{})
	defer a.Close()
	defer b.Close()
	numbered := func(imm uint32, text string) {
		t.Helper()
		m, err := b.Recv(timeout(t))
		ok(t, err)
		if got, has := m.Imm(); !has || got != imm || string(m.Bytes()) != text {
			t.Errorf("%q with the number %d, %v, want %q with %d", m.Bytes(), got, has, text, imm)
		}
		m.Release()
	}
	ok(t, a.SendImm(timeout(t), 77, []byte("seventy-seven")))
	numbered(77, "seventy-seven")
	mem, local := buffer(t, server, 100), buffer(t, client, 100)
	copy(local.Bytes(), "written")
	s, r := lend(t, b, a, mem, MayRead|MayWrite, time.Minute)
	ok(t, r.WriteImm(timeout(t), local, 0, 78))
	numbered(78, "")
	if !strings.HasPrefix(string(mem.Bytes()), "written") {
		t.Errorf("the lender has %q", mem.Bytes()[:10])
	}
	ok(t, r.Return(timeout(t)))
	<-s.Done()
}

// TestSIW_Lacks has the calls that need what iWARP lacks.
func TestSIW_Lacks(t *testing.T) {
	dev := testutil.NeedSIW(t)
	server, client := newEngines(t, nil)
	a, b := leaseConns(t, server, client, &LeaseOptions{}, &LeaseOptions{})
	defer a.Close()
	defer b.Close()
	mem := buffer(t, client, 100)
	for name, call := range map[string]func() error{
		"KeysWindow": func() error {
			_, err := NewEngine(dev.Dev[0], &EngineOptions{LeaseKeys: KeysWindow})
			return err
		},
		"MayAtomic": func() error {
			_, err := a.Lend(timeout(t), mem, MayAtomic, time.Minute)
			return err
		},
		"ListenPacket": func() error {
			_, err := ListenPacket(timeout(t), dev.IP[0]+":0", nil)
			return err
		},
		"DialPacket": func() error {
			_, err := DialPacket(timeout(t), dev.IP[0]+":9", nil)
			return err
		},
	} {
		var unsupported *ibv.UnsupportedError
		if err := call(); !errors.As(err, &unsupported) || !strings.Contains(unsupported.Have, "siw") {
			t.Errorf("%s: %v, want an *ibv.UnsupportedError that names the device", name, err)
		}
	}
}
