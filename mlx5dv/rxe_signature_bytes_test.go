package mlx5dv

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

var updateWQEs = flag.Bool("update-wqes", false, "write testdata/signature.wqes, with libmlx5")

// wqeReader reads what is posted to a ring, in words that do not depend on where objects are.
type wqeReader struct {
	s    *mkeySide
	ring []byte
	at   int
	psvs map[uint32]int
}

// next returns the WQEs that were posted since the last call, as lines of hexadecimal digits.
func (r *wqeReader) next(n int) (lines []string) {
	be := binary.BigEndian
	for range n {
		w := append(append([]byte(nil), r.ring[r.at:]...), r.ring[:r.at]...)
		size := int(w[7]&0x3f) * 16
		w = w[:size]
		clear(w[4:7]) // the QP
		if op := w[3]; op == byte(OpUMR) {
			clear(w[12:15]) // the key
			n := int(be.Uint16(w[20:]))
			for seg := 128; seg < 128+16*n; seg += 16 {
				if be.Uint32(w[seg:]) != 0 && be.Uint32(w[seg+4:]) != 0x400 { // not the head of blocks
					be.PutUint32(w[seg+4:], 0)
					be.PutUint64(w[seg+8:], be.Uint64(w[seg+8:])-r.s.mr.Addr())
				}
			}
			if be.Uint16(w[22:]) != 0 {
				r.number(w[128+16*n+8:])
				r.number(w[128+16*n+12:])
			}
		} else {
			clear(w[12:16]) // libmlx5 leaves what stood in the ring
			r.number(w[16:])
		}
		lines = append(lines, fmt.Sprintf("%x", w))
		if r.at += (size + 63) &^ 63; r.at >= len(r.ring) {
			r.at -= len(r.ring)
		}
	}
	return lines
}

// number replaces the number of a PSV by the order in which it was used first.
func (r *wqeReader) number(b []byte) {
	v := binary.BigEndian.Uint32(b)
	if v&0xffffff == 0 {
		return
	}
	if r.psvs[v&0xffffff] == 0 {
		r.psvs[v&0xffffff] = len(r.psvs) + 1
	}
	binary.BigEndian.PutUint32(b, v&^0xffffff|uint32(r.psvs[v&0xffffff]))
}

// TestRXESignatureBytes compares the WQEs that change a key with a signature with those that libmlx5 writes, which are
// on file: also those that depend on what was set before, and on wrong signatures since.
func TestRXESignatureBytes(t *testing.T) {
	dev := open(t, 0)
	if dev == nil {
		return
	}
	s := newMkeySideOn(t, dev, keyWriter(dev), WithMkeyConfigure, &MkeyOptions{Flags: MkeyBlockSignature})
	if s == nil {
		return
	}
	lib, _, err := begin(dev, "test").reach()
	ok(t, err)
	h, leave, err := verbs.Enter(s.qp, "test")
	ok(t, err)
	v := must(lib.InitQP(h, 0))(t)
	leave()
	r := &wqeReader{s: s, ring: memory(v.SQ.Buf, uint64(v.SQ.WQECnt)*64), psvs: map[uint32]int{}}

	dif := func(size BlockSizes, d BlockT10DIF) *SigDomain { return &SigDomain{BlockSize: size, T10DIF: &d} }
	crc := func(size BlockSizes, typ CRCs, seed uint64) *SigDomain {
		return &SigDomain{BlockSize: size, CRC: &BlockCRC{Type: typ, Seed: seed}}
	}
	plain := dif(Block512, BlockT10DIF{Guard: GuardCRC, Seed: 0xffff, AppTag: 0x1234, RefTag: 0xfffffffe,
		Flags: RefRemap})
	sum := dif(Block512, BlockT10DIF{Guard: GuardChecksum, AppTag: 0x1234, RefTag: 7, Flags: AppEscape})
	escape := dif(Block4096, BlockT10DIF{Guard: GuardCRC, AppTag: 1, RefTag: 2, Flags: AppRefEscape | RefRemap})
	some, guard := CRC32Bytes&0xc0, T10DIFGuard
	list := []ibv.SGE{s.mr.SGE(64, 300), s.mr.SGE(1000, 740)}
	blocks := []Block{{Addr: s.mr.Addr(), Bytes: 512, Skip: 8, LKey: s.mr.LKey()}}
	var got []string
	change := func(name string, wqes int, flags ibv.SendFlags, c MkeyConfig) {
		t.Helper()
		post(t, s.qp, ibv.SendWR{ID: 1, Opcode: ibv.OpDriver1, Flags: flags | ibv.Signaled,
			Mkey: must(s.key.Change(&c))(t)})
		if wc := s.done(1); wc.Opcode != ibv.WCDriver1 {
			t.Errorf("%s: %+v", name, wc)
		}
		for i, line := range r.next(wqes) {
			got = append(got, fmt.Sprintf("%s %d: %s", name, i, line))
		}
	}
	with := func(sig *BlockSignature) MkeyConfig {
		return MkeyConfig{Access: ibv.LocalWrite, List: list, Signature: sig}
	}
	change("rights alone", 1, 0, MkeyConfig{Access: ibv.RemoteRead})
	change("both", 3, 0, with(&BlockSignature{Memory: plain, Wire: sum, Check: 0xff}))
	change("both alike", 3, ibv.Fence, with(&BlockSignature{Memory: plain, Wire: plain, Check: 0x0f, Copy: &guard}))
	change("memory", 2, ibv.Solicited, with(&BlockSignature{Memory: escape, Check: T10DIFRefTag}))
	change("wire", 2, 0, with(&BlockSignature{Wire: crc(Block520, CRC32, 0)}))
	change("layout after it", 1, 0, MkeyConfig{Access: ibv.LocalWrite, Blocks: blocks, Repeat: 3})
	change("two CRCs", 3, 0, with(&BlockSignature{Memory: crc(Block512, CRC32C, 0xffffffff),
		Wire: crc(Block512, CRC32C, 0), Check: CRC32Bytes}))
	change("copied CRCs", 3, 0, with(&BlockSignature{Memory: crc(Block4160, CRC32, 0), Wire: crc(Block4160, CRC32, 0),
		Copy: &some}))
	change("signature alone", 3, 0, MkeyConfig{Signature: &BlockSignature{Memory: plain,
		Wire: crc(Block512, CRC32, 0)}})
	change("removed", 1, 0, MkeyConfig{ResetSignature: true, List: list})
	change("after that", 1, 0, MkeyConfig{Access: ibv.LocalWrite})
	change("again", 2, 0, with(&BlockSignature{Memory: plain, Check: 0xff}))
	wrong := func() {
		t.Helper()
		post(t, s.qp, ibv.SendWR{ID: 2, Opcode: ibv.OpWrite, Flags: ibv.Signaled, Remote: s.mr.Remote().At(5000),
			SGEs: []ibv.SGE{{Length: 1024, LKey: s.key.LKey()}}})
		s.done(2)
		r.next(1)
		var e *SigError
		if err := s.key.Check(); !errors.As(err, &e) {
			t.Errorf("zeros have the right signature: %v", err)
		}
	}
	wrong()
	change("after a wrong one", 2, 0, MkeyConfig{Access: ibv.LocalWrite, List: list})
	wrong()
	change("told and replaced", 3, 0, with(&BlockSignature{Memory: plain, Wire: sum}))

	file := filepath.Join("testdata", "signature.wqes")
	text := strings.Join(got, "\n") + "\n"
	if *updateWQEs && !native(dev) {
		ok(t, os.WriteFile(file, []byte(text), 0o644))
	}
	want := strings.Split(strings.TrimSpace(string(must(os.ReadFile(file))(t))), "\n")
	if len(want) != len(got) {
		t.Fatalf("%d WQEs, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}
