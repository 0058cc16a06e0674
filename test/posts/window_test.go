//go:build linux

package posts

import (
	"fmt"

	"github.com/pureverbs/pureverbs/ibv"
)

// window is the memory window of a pair's a, with what the model knows of it.
type window struct {
	mw    *ibv.MW
	key   uint32 // of the last bind that was executed
	bound bool
}

// has reports whether the window can be invalidated by a key.
func (w *window) has(key uint32) bool { return w.bound && w.key == key }

// bind returns a bind that succeeds: of a free window to a part of a's memory, of a bound one to nothing.
func (p *pair) bind(id uint64) *ibv.BindMW {
	w := &p.window
	b := &ibv.BindMW{MW: w.mw, RKey: ibv.NextRKey(w.key)}
	if p.typ == ibv.UD || w.bound {
		return b
	}
	b.MR, b.Addr, b.Length = p.a.mr, p.a.mr.Addr()+id%64, 1+id%900
	for i, access := range []ibv.AccessFlags{ibv.RemoteRead, ibv.RemoteWrite, ibv.RemoteAtomic, ibv.ZeroBased} {
		if id>>i&1 != 0 {
			b.Access |= access
		}
	}
	return b
}

// flushed is what becomes of the window when a work request is flushed.
func (p *pair) flushed(wr *ibv.SendWR) {
	if p.small = false; wr.Opcode == ibv.OpBindMW {
		p.window.mw.SetRKey(p.window.key)
	}
}

// umr is what the emulator's trace tells of a bind or invalidate.
type umr struct {
	Flags    string `json:"flags"`
	Mask     string `json:"mask"`
	Free     bool   `json:"FREE"`
	QPN      string `json:"qpn"`
	Variant  string `json:"variant"`
	Access   string `json:"access"`
	Start    string `json:"start"`
	Len      uint64 `json:"len"`
	LKey     string `json:"lkey"`
	Addr     string `json:"addr"`
	EntryLen uint64 `json:"entry_len"`
}

// umr returns what the device must read: what changes, what is required, and the window as it becomes.
func (p *pair) umr(wr *ibv.SendWR) *umr {
	hex := func(v uint64) string { return fmt.Sprintf("%#x", v) }
	if wr.Opcode == ibv.OpLocalInv || wr.Bind.Length == 0 {
		u := &umr{Flags: "0x98", Mask: "0x20006000", Free: true, QPN: "0xffffff", Variant: "0x0"}
		if wr.Opcode == ibv.OpBindMW {
			u.Variant = hex(uint64(wr.Bind.RKey & 0xff))
		}
		return u
	}
	b := wr.Bind
	u := &umr{Flags: "0xb0", Mask: "0x203c6041", QPN: hex(uint64(p.a.qp.Num())), Variant: hex(uint64(b.RKey & 0xff)),
		Start: hex(b.Addr), Len: b.Length, LKey: hex(uint64(b.MR.LKey())), Addr: hex(b.Addr), EntryLen: b.Length}
	access := uint64(0)
	for flag, bit := range map[ibv.AccessFlags]uint64{ibv.RemoteRead: 1 << 4, ibv.RemoteWrite: 1 << 5,
		ibv.RemoteAtomic: 1 << 6} {
		if b.Access&flag != 0 {
			access |= bit
		}
	}
	if u.Access = hex(access); b.Access&ibv.ZeroBased != 0 {
		u.Start = "0x0"
	}
	return u
}
