package rdmacm

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// xrcEP makes an endpoint of XRC; addr is where to, or where to listen.
func xrcEP(t *testing.T, typ ibv.QPType, addr netip.AddrPort) *ID {
	t.Helper()
	info := &AddrInfo{QPType: typ, PortSpace: PortSpaceIB, Dst: addr}
	if typ == ibv.XRCRecv {
		info.Flags, info.Src, info.Dst = AddrInfoPassive, addr, netip.AddrPort{}
	}
	return closing(t, must(CreateEP(timeout(t), info))(t))
}

// noXRC looks at the refusal of a device without XRC, and reports whether that is what this device is.
func noXRC(t *testing.T) bool {
	t.Helper()
	r := testutil.NeedRXE(t)
	if r.Emulated || r.Hardware {
		return false
	}
	dev := closing(t, must(ibv.Open(r.Dev[0]))(t))
	if _, err := dev.OpenXRCD(nil, 0); !errors.Is(err, ibv.ErrNotSupported) {
		t.Error(err)
	}
	return true
}

// xrcServer accepts one request, and returns the message that comes to its SRQ.
func xrcServer(t *testing.T, l *ID, ready func()) string {
	t.Helper()
	ok(t, l.Listen(1))
	ready()
	id := closing(t, must(l.Request(timeout(t)))(t).ID)
	dev := must(id.Verbs())(t)
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(8, nil))(t))
	xrcd := closing(t, must(dev.OpenXRCD(nil, os.O_CREATE))(t))
	srq := closing(t, must(pd.CreateSRQ(&ibv.SRQOptions{Type: ibv.SRQXRC, CQ: cq, XRCD: xrcd}))(t))
	mr := closing(t, must(pd.AllocMR(64, ibv.LocalWrite, nil))(t))
	must(srq.PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{mr.SGE(0, 64)}}}))(t)
	qp := closing(t, must(xrcd.CreateQP())(t))
	p := &ConnParam{QPN: qp.Num(), SRQ: true, PrivateData: binary.BigEndian.AppendUint32(nil, must(srq.Num())(t))}
	ok(t, id.BringUp(qp, p))
	ok(t, id.Accept(p))
	var wc [1]ibv.WC
	if n, err := cq.Wait(timeout(t), wc[:]); n != 1 || err != nil || wc[0].Status != ibv.WCSuccess {
		t.Fatal(n, err, wc)
	}
	_ = id.Disconnect()
	return string(mr.Bytes()[:wc[0].ByteLen])
}

// xrcClient sends text to the SRQ that the server names.
func xrcClient(t *testing.T, to netip.AddrPort, text string, byID bool) {
	t.Helper()
	id := xrcEP(t, ibv.XRCSend, to)
	dev := must(id.Verbs())(t)
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(8, nil))(t))
	o := &ibv.QPOptions{Type: ibv.XRCSend, MaxInline: 64}
	var qp *ibv.QP
	p := &ConnParam{}
	if byID {
		qp = closing(t, must(id.CreateQP(pd, cq, nil, o))(t))
	} else {
		qp = closing(t, must(pd.CreateQP(cq, nil, o))(t))
		p.QPN = qp.Num()
	}
	ok(t, id.Connect(p))
	ev := must(id.Channel().Event(timeout(t)))(t)
	for ev.Type != EventConnectResponse && ev.Type != EventEstablished {
		ok(t, ev.Err())
		ev = must(id.Channel().Event(timeout(t)))(t)
	}
	srqn := binary.BigEndian.Uint32(ev.PrivateData)
	if !byID {
		ok(t, id.BringUp(qp, p))
		ok(t, id.Establish())
	}
	must(qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled, Inline: []byte(text),
		RemoteSRQN: srqn}}))(t)
	var wc [1]ibv.WC
	if n, err := cq.Wait(timeout(t), wc[:]); n != 1 || err != nil || wc[0].Status != ibv.WCSuccess {
		t.Fatal(n, err, wc)
	}
	_ = id.Disconnect()
}

// TestRXE_CM_XRC connects XRC by rdma_cm, with a QP of the ID's and with one of the program's. TestEmuXRCByCM has
// librdmacm's own programs as peers.
func TestRXE_CM_XRC(t *testing.T) {
	if noXRC(t) {
		return
	}
	for _, byID := range []bool{false, true} {
		t.Run(strconv.FormatBool(byID), func(t *testing.T) {
			l := xrcEP(t, ibv.XRCRecv, local(t))
			at := netip.AddrPortFrom(local(t).Addr(), l.LocalAddr().Port())
			var client sync.WaitGroup
			t.Cleanup(client.Wait) // also if the server fails
			const text = "over XRC"
			got := xrcServer(t, l, func() { client.Go(func() { xrcClient(t, at, text, byID) }) })
			client.Wait()
			if got != text {
				t.Errorf("%q came, want %q", got, text)
			}
		})
	}
}

// TestRXE_CM_XRCRefused has endpoints that cannot be, and a context that ends first.
func TestRXE_CM_XRCRefused(t *testing.T) {
	if noXRC(t) {
		return
	}
	for _, info := range []*AddrInfo{
		{QPType: ibv.XRCSend, PortSpace: PortSpaceIB},
		{QPType: ibv.XRCRecv, PortSpace: PortSpaceIB, Flags: AddrInfoPassive},
	} {
		var bad *ibv.ArgError
		if id, err := CreateEP(timeout(t), info); id != nil || !errors.As(err, &bad) {
			t.Errorf("%v: %v", info, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	to := netip.AddrPortFrom(local(t).Addr(), 9)
	if id, err := CreateEP(ctx, &AddrInfo{QPType: ibv.XRCSend, PortSpace: PortSpaceIB, Dst: to}); err == nil {
		ok(t, id.Close())
	} else if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	id := xrcEP(t, ibv.XRCSend, to)
	dev := must(id.Verbs())(t)
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(8, nil))(t))
	if _, err := id.CreateQP(pd, cq, cq, &ibv.QPOptions{Type: ibv.RC}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("an RC QP of an ID of XRC: %v", err)
	}
	plain := closing(t, must(newChannel(t).CreateID(PortSpaceTCP))(t))
	ok(t, plain.Bind(local(t)))
	dev = must(plain.Verbs())(t)
	pd = closing(t, must(dev.AllocPD())(t))
	cq = closing(t, must(dev.CreateCQ(8, nil))(t))
	_, err := plain.CreateQP(pd, cq, cq, &ibv.QPOptions{Type: ibv.XRCRecv})
	if err == nil || !strings.Contains(err.Error(), "XRCD.CreateQP and BringUp") {
		t.Error(err)
	}
}
