//go:build linux && amd64 && !race

package emu

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
	"github.com/pureverbs/pureverbs/rdmacm"
)

// xrcEnd is what both ends of a connection of XRC have.
type xrcEnd struct {
	t   *testing.T
	ctx context.Context
	pd  *ibv.PD
	cq  *ibv.CQ
}

func (e *xrcEnd) open(id *rdmacm.ID, path ibv.DataPath) *ibv.Device {
	dev := tagMust(id.Verbs())(e.t)
	e.pd = tagMust(dev.AllocPD())(e.t)
	e.cq = tagMust(dev.CreateCQ(8, &ibv.CQOptions{DataPath: path}))(e.t)
	return dev
}

func (e *xrcEnd) completion() ibv.WC {
	e.t.Helper()
	var wc [1]ibv.WC
	if n, err := e.cq.Wait(e.ctx, wc[:]); n != 1 || err != nil || wc[0].Status != ibv.WCSuccess {
		e.t.Fatal(n, err, wc[0].Status)
	}
	return wc[0]
}

// endpoint makes an ID of XRC that listens, or leads to a listener.
func (e *xrcEnd) endpoint(typ ibv.QPType, port int) *rdmacm.ID {
	e.t.Helper()
	info := &rdmacm.AddrInfo{QPType: typ, PortSpace: rdmacm.PortSpaceIB}
	at := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port))
	if typ == ibv.XRCRecv {
		info.Flags, info.Src = rdmacm.AddrInfoPassive, at
	} else {
		info.Dst = at
	}
	return tagMust(rdmacm.CreateEP(e.ctx, info))(e.t)
}

// xrcServe receives one message for an XRC SRQ.
func (e *xrcEnd) serve(port int, path ibv.DataPath, start func()) (got string) {
	l := e.endpoint(ibv.XRCRecv, port)
	defer l.Close()
	if err := l.Listen(1); err != nil {
		e.t.Fatal(err)
	}
	start()
	id := tagMust(l.Request(e.ctx))(e.t).ID
	defer id.Close()
	dev := e.open(id, path)
	x := tagMust(dev.OpenXRCD(nil, os.O_CREATE))(e.t)
	s := tagMust(e.pd.CreateSRQ(&ibv.SRQOptions{Type: ibv.SRQXRC, CQ: e.cq, XRCD: x}))(e.t)
	m := tagMust(e.pd.AllocMR(64, ibv.LocalWrite, nil))(e.t)
	tagMust(s.PostRecv([]ibv.RecvWR{{SGEs: []ibv.SGE{m.SGE(0, 64)}}}))(e.t)
	qp := tagMust(x.CreateQP())(e.t)
	p := &rdmacm.ConnParam{QPN: qp.Num(), SRQ: true}
	p.PrivateData = binary.BigEndian.AppendUint32(nil, tagMust(s.Num())(e.t))
	if err := id.BringUp(qp, p); err != nil {
		e.t.Fatal(err)
	}
	if err := id.Accept(p); err != nil {
		e.t.Fatal(err)
	}
	wc := e.completion()
	got = string(m.Bytes()[:wc.ByteLen])
	_ = id.Disconnect()
	for _, o := range []interface{ Close() error }{qp, s, m, x, e.cq, e.pd} {
		if err := o.Close(); err != nil {
			e.t.Error(err)
		}
	}
	return got
}

// send sends a message to the XRC SRQ that the server names. It reports whether there is a server.
func (e *xrcEnd) send(port int, path ibv.DataPath, text string) bool {
	id := e.endpoint(ibv.XRCSend, port)
	defer id.Close()
	e.open(id, path)
	defer func() {
		if err := errors.Join(e.cq.Close(), e.pd.Close()); err != nil {
			e.t.Error(err)
		}
	}()
	qp := tagMust(id.CreateQP(e.pd, e.cq, nil, &ibv.QPOptions{MaxInline: 64}))(e.t)
	if err := id.Connect(nil); err != nil {
		e.t.Fatal(err)
	}
	ev := tagMust(id.Channel().Event(e.ctx))(e.t)
	if ev.Type != rdmacm.EventEstablished {
		if err := qp.Close(); err != nil || ev.Type != rdmacm.EventRejected {
			e.t.Fatal(ev, err)
		}
		return false
	}
	tagMust(qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpSend, Flags: ibv.Signaled, Inline: []byte(text),
		RemoteSRQN: binary.BigEndian.Uint32(ev.PrivateData)}}))(e.t)
	e.completion()
	_ = id.Disconnect()
	if err := qp.Close(); err != nil {
		e.t.Error(err)
	}
	return true
}

// TestEmuXRCByCM has librdmacm's own programs as peers of XRC, which leave CQs behind.
func TestEmuXRCByCM(t *testing.T) {
	testutil.NeedEmu(t)
	if !inside(t, "--strict", "--strict-ignore=leak", "--device", "mlx5_0") {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), testutil.Patience)
	defer cancel()
	var out bytes.Buffer
	start := func(program string, args ...string) (wait func()) {
		out.Reset()
		c := exec.CommandContext(ctx, program, append([]string{"-c", "x"}, args...)...)
		c.Stdout, c.Stderr = &out, &out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := c.Wait(); err != nil || !strings.Contains(out.String(), "end 0") {
				t.Errorf("%s: %v\n%s", program, err, &out)
			}
		}
	}
	for _, path := range []ibv.DataPath{ibv.DataPathDirect, ibv.DataPathOps} {
		e := &xrcEnd{t: t, ctx: ctx}
		p := 21000 + int(port.Add(1))
		var wait func()
		if got := e.serve(p, path, func() {
			wait = start("rdma_xclient", "-s", "127.0.0.1", "-p", strconv.Itoa(p))
		}); len(got) != 16 {
			t.Errorf("%v: %d bytes came of 16", path, len(got))
		}
		wait()
		p = 21000 + int(port.Add(1))
		wait = start("rdma_xserver", "-p", strconv.Itoa(p))
		for !e.send(p, path, "sixteen bytes...") { // it does not listen yet
			if ctx.Err() != nil {
				t.Fatal(ctx.Err())
			}
			time.Sleep(time.Millisecond)
		}
		wait()
	}
}
