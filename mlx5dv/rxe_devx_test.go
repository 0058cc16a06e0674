package mlx5dv

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/testutil"
)

// Commands, and fields of answers by their bytes.
const (
	opQueryHCACap   = 0x100
	opQueryISSI     = 0x10a
	opQueryQP       = 0x50b
	opAllocPD       = 0x800
	opNop           = 0x80d
	opCreateGeneral = 0xa00
)

// header is a command that is nothing but its header: an opcode, a modifier, a number.
func header(op, mod uint16, num uint32) []byte {
	b := make([]byte, 16)
	binary.BigEndian.PutUint16(b, op)
	binary.BigEndian.PutUint16(b[6:], mod)
	binary.BigEndian.PutUint32(b[8:], num)
	return b
}

// wantStatus checks that the device refused a command.
func wantStatus(t *testing.T, what string, want CommandStatus, err error) {
	t.Helper()
	var e *CommandError
	if !errors.As(err, &e) || e.Status != want || e.Syndrome == 0 {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

func TestRXEDevX(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	out := make([]byte, 16+4096)
	ok(t, DevXCommand(dev, header(opNop, 0, 0), out))
	ok(t, DevXCommand(dev, header(opQueryHCACap, 1, 0), out))
	caps := out[16:]
	a := must(dev.QueryDevice())(t)
	if n := int(caps[55]); n != int(a.PhysPortCnt) || 1<<(caps[19]&0x1f) > a.MaxQP || caps[71]&0xf != 0xf {
		t.Errorf("%d ports, 2^%d QPs, transports %#x", n, caps[19]&0x1f, caps[71]&0xf)
	}
	err := DevXCommand(dev, header(opQueryHCACap, 0xee, 0), out)
	wantStatus(t, "capabilities of no group", CommandBadParameter, err)
	wantStatus(t, "a command that is not there", CommandBadOpcode, DevXCommand(dev, header(opQueryISSI, 0, 0), out))
	var refused *CommandError
	if err := DevXCommand(dev, header(opAllocPD, 0, 0), out); !errors.As(err, &refused) || refused.Status != 0 ||
		refused.Err != syscall.EINVAL {
		t.Errorf("a command that makes an object: %v", err)
	}
	o := closing(t, must(CreateDevXObject(dev, header(opAllocPD, 0, 0), out[:16]))(t))
	if binary.BigEndian.Uint32(out[8:])>>24 != 0 {
		t.Errorf("a PD of number %#x", binary.BigEndian.Uint32(out[8:]))
	}
	if err := o.Query(header(opQueryQP, 0, 1), out); !errors.As(err, &refused) || refused.Err != syscall.EINVAL {
		t.Errorf("querying a PD as if it were a QP: %v", err)
	}
	_, err = CreateDevXObject(dev, header(opCreateGeneral, 0x3f, 0), out)
	wantStatus(t, "an object of no type", CommandBadParameter, err)

	pd := closing(t, must(dev.AllocPD())(t))
	mr := closing(t, must(pd.AllocMR(3*4096, ibv.LocalWrite, nil))(t))
	u := closing(t, must(RegUmem(dev, mr.Bytes(), nil))(t))
	v := closing(t, must(RegUmem(dev, mr.Bytes()[100:200], &UmemOptions{Access: ibv.RemoteRead}))(t))
	if u.ID() == v.ID() {
		t.Errorf("two umems have the number %d", u.ID())
	}
	page := closing(t, must(AllocUAR(dev, UARBlueFlame))(t))
	if page.Register() != page.Page()+0x800 {
		t.Errorf("register %#x of page %#x", page.Register(), page.Page())
	}
	one, two := must(AllocUAR(dev, UARNonCached))(t), must(AllocUAR(dev, UARNonCached))(t)
	if one.PageID() != two.PageID() {
		t.Errorf("the Device's pages are %d and %d", one.PageID(), two.PageID())
	}
	ok(t, errors.Join(one.Close(), two.Close()))
	if n, m := must(QueryEQN(dev, 0))(t), must(QueryEQN(dev, 1))(t); n == m {
		t.Errorf("two vectors have event queue %d", n)
	}
	if v, err := AllocVAR(dev); err == nil {
		if off, n := v.Mmap(); off == 0 || n < 4096 {
			t.Errorf("a VAR is %d bytes at %#x", n, off)
		}
		ok(t, v.Close())
	} else if testutil.NeedRXE(t).Emulated || !errors.Is(err, ibv.ErrNotSupported) {
		t.Errorf("a VAR: %v", err)
	}
	for what, f := range map[string]func() error{
		"data direct": func() error { _, err := DataDirectPath(dev); return err },
		"events":      func() error { _, err := CreateDevXEvents(dev, true); return err },
	} {
		if err := f(); !errors.Is(err, ibv.ErrNotSupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// What a QP's path can be told beyond verbs, and what the device then says of it.
func TestRXEDevX_Path(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	rxe := testutil.NeedRXE(t)
	rxe.NeedRoCE(t)
	pd := closing(t, must(dev.AllocPD())(t))
	cq := closing(t, must(dev.CreateCQ(16, nil))(t))
	qp := closing(t, must(pd.CreateQP(cq, cq, nil))(t))
	wantUnsupported(t, "a UDP port in RESET", ModifyUDPPort(qp, 0xd000))
	ok(t, qp.Connect(must(qp.Endpoint(rxe.Port, rxe.GID))(t), nil))
	const context, path, sport = 24, 24, 34
	out := make([]byte, 272)
	ok(t, DevXQuery(qp, header(opQueryQP, 0, qp.Num()), out))
	if out[context]>>4 != 3 || binary.BigEndian.Uint32(out[context+20:])&0xffffff != qp.Num() {
		t.Errorf("state %d, peer %#x", out[context]>>4, binary.BigEndian.Uint32(out[context+20:])&0xffffff)
	}
	ok(t, ModifyUDPPort(qp, 0xd123))
	ok(t, DevXQuery(qp, header(opQueryQP, 0, qp.Num()), out))
	if p := binary.BigEndian.Uint16(out[context+path+sport:]); p != 0xd123 {
		t.Errorf("the device sends from port %#x", p)
	}
	var refused *CommandError
	if err := DevXQuery(qp, header(opQueryQP, 0, qp.Num()+1), out); !errors.As(err, &refused) ||
		refused.Err != syscall.EINVAL {
		t.Errorf("querying another QP than the command names: %v", err)
	}
	if err := DevXQuery(cq, header(opQueryQP, 0, qp.Num()), out); !errors.As(err, &refused) {
		t.Errorf("querying a CQ as a QP: %v", err)
	}
	_, err := QueryLAGPort(qp)
	wantUnsupported(t, "the port of a bond", err)
	wantUnsupported(t, "the port of a bond", ModifyLAGPort(qp, 1))

	ah := closing(t, must(pd.CreateAH(must(qp.Address(must(qp.Endpoint(rxe.Port, rxe.GID))(t), nil))(t)))(t))
	if err := MapAHToQP(ah, qp.Num()); !missing(err) {
		ok(t, err)
		ok(t, MapAHToQP(ah, qp.Num()))
	}
	if a, err := ReserveQPN(dev); !missing(err) {
		a := must(a, err)(t)
		b := must(ReserveQPN(dev))(t)
		if a.Num() == b.Num() || a.Num() == qp.Num() {
			t.Errorf("reserved %#x and %#x", a.Num(), b.Num())
		}
		ok(t, errors.Join(a.Close(), b.Close()))
	}
}

// missing reports whether the library is too old for a call.
func missing(err error) bool {
	var e *ibv.UnsupportedError
	return errors.As(err, &e) && strings.Contains(e.Have, "without mlx5dv_")
}

// Queries that nobody waits for have the answers of those that somebody waits for.
func TestRXEDevX_Async(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	c := newCounter(t, dev, 1)
	q := closing(t, must(CreateDevXQueries(dev))(t))
	ctx, cancel := context.WithTimeout(t.Context(), testutil.Patience)
	defer cancel()
	query := func(counters uint16) []byte {
		in := make([]byte, 32)
		binary.BigEndian.PutUint16(in, 0x93b)
		binary.BigEndian.PutUint16(in[26:], counters)
		binary.BigEndian.PutUint32(in[28:], c.id)
		return in
	}
	for n := uint16(1); n <= 4; n++ { // counters; answers of different lengths wait at the same time
		ok(t, q.Start(c.DevXObject, uint64(n), query(n), 16+16*int(n)))
	}
	for n := 1; n <= 4; n++ {
		want := make([]byte, 16+16*n)
		ok(t, c.Query(query(uint16(n)), want))
		if a := must(q.Read(ctx))(t); a.Cookie != uint64(n) || a.Err != nil || !bytes.Equal(a.Out, want) {
			t.Errorf("%d counters: %+v, want % x", n, a, want)
		}
	}
	ok(t, q.Start(c.DevXObject, 9, query(0xffff), 32)) // more counters than there are
	a := must(q.Read(ctx))(t)
	wantStatus(t, "more counters than there are", CommandBadParameter, a.Err)
	var e *CommandError
	if err := q.Start(c.DevXObject, 1, header(opNop, 0, 0), 16); !errors.As(err, &e) || e.Err != syscall.EINVAL {
		t.Errorf("no query: %v", err)
	}
	read := make(chan error)
	go func() { _, err := q.Read(ctx); read <- err }()
	ok(t, q.Start(c.DevXObject, 1, query(1), 32))
	ok(t, <-read)
	started := 0
	var err error
	for ; err == nil && started < 1<<16; started++ {
		err = q.Start(c.DevXObject, 1, query(1), 32)
	}
	if !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("after %d queries: %v", started, err)
	}
	for ; started > 1; started-- {
		must(q.Read(ctx))(t)
	}
	ok(t, q.Start(c.DevXObject, 1, query(1), 32))
}
