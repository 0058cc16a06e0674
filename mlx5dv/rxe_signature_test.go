package mlx5dv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/pureverbs/pureverbs/ibv"
)

// t10Guard is the CRC of T10-DIF, bit by bit.
func t10Guard(crc uint16, data []byte) uint16 {
	for _, b := range data {
		for i := 7; i >= 0; i-- {
			top := crc>>15 ^ uint16(b>>i&1)
			crc <<= 1
			if top != 0 {
				crc ^= 0x8bb7
			}
		}
	}
	return crc
}

// withT10 returns blocks of 512 bytes, each with its signature.
func withT10(seed, app uint16, ref uint32, data []byte) (out []byte) {
	for i := 0; i < len(data); i += 512 {
		out = append(out, data[i:i+512]...)
		out = binary.BigEndian.AppendUint16(out, t10Guard(seed, data[i:i+512]))
		out = binary.BigEndian.AppendUint16(out, app)
		out = binary.BigEndian.AppendUint32(out, ref+uint32(i/512))
	}
	return out
}

// withCRC returns blocks with their CRC.
func withCRC(size int, table *crc32.Table, data []byte) (out []byte) {
	for ; len(data) > 0; data = data[size:] {
		out = append(out, data[:size]...)
		out = binary.BigEndian.AppendUint32(out, crc32.Checksum(data[:size], table))
	}
	return out
}

// Signatures are made, checked, copied and removed on the way.
func TestRXESignature(t *testing.T) {
	s := newMkeySide(t, WithMkeyConfigure, &MkeyOptions{Flags: MkeyBlockSignature})
	if s == nil {
		return
	}
	if path, _ := s.cq.DataPath(); path == ibv.DataPathDirect && !native(s.pd.Device()) {
		var u *ibv.UnsupportedError
		change := must(s.key.Change(&MkeyConfig{Access: ibv.LocalWrite, List: []ibv.SGE{s.mr.SGE(0, 520)}}))(t)
		if _, err := s.qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpDriver1, Mkey: change}}); !errors.As(err, &u) ||
			!strings.Contains(u.Need, "DataPathOps") {
			t.Errorf("%v, want an UnsupportedError that names DataPathOps", err)
		}
		return
	}
	const blocks, flat = 4, mkeyMemory / 2
	data := make([]byte, blocks*512)
	r := rand.New(rand.NewPCG(7, 8))
	for i := range data {
		data[i] = byte(r.Uint32())
	}
	castagnoli := crc32.MakeTable(crc32.Castagnoli)
	dif := &SigDomain{BlockSize: Block512, T10DIF: &BlockT10DIF{Guard: GuardCRC, Seed: 0xffff, AppTag: 0x1234,
		RefTag: 0xfffffffe, Flags: RefRemap}}
	crc := &SigDomain{BlockSize: Block512, CRC: &BlockCRC{Type: CRC32, Seed: 0xffffffff}}
	crcC := &SigDomain{BlockSize: Block512, CRC: &BlockCRC{Type: CRC32C, Seed: 0xffffffff}}
	none := SigBytes(0)
	signedT10 := withT10(0xffff, 0x1234, 0xfffffffe, data)
	signedCRC, signedC := withCRC(512, crc32.IEEETable, data), withCRC(512, castagnoli, data)
	m := s.mr.Bytes()
	id := uint64(0)
	move := func(op ibv.Opcode, sig *BlockSignature, from, want []byte, memory, wire int) {
		t.Helper()
		clear(m)
		list := []ibv.SGE{s.mr.SGE(10, memory/2), s.mr.SGE(5000, memory-memory/2)}
		change := must(s.key.Change(&MkeyConfig{Access: ibv.LocalWrite, List: list, Signature: sig}))(t)
		key := ibv.SGE{Length: uint32(wire), LKey: s.key.LKey()}
		if op == ibv.OpWrite {
			copy(m[10:], from[:memory/2])
			copy(m[5000:], from[memory/2:])
		} else {
			copy(m[flat:], from)
		}
		id++
		post(t, s.qp, ibv.SendWR{ID: id, Opcode: ibv.OpDriver1, Mkey: change},
			ibv.SendWR{ID: id + 1, Opcode: op, Flags: ibv.Signaled, SGEs: []ibv.SGE{key},
				Remote: s.mr.Remote().At(flat)})
		id++
		s.done(id)
		got := bytes.Clone(m[flat:][:wire])
		if op == ibv.OpRead {
			got = append(bytes.Clone(m[10:][:memory/2]), m[5000:][:memory-memory/2]...)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%v: % x, want % x", op, got[500:540], want[500:540])
		}
	}
	all := T10DIFGuard | T10DIFAppTag | T10DIFRefTag
	good := func(name string) {
		t.Helper()
		if err := s.key.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	strip := &BlockSignature{Memory: dif, Check: all}
	move(ibv.OpWrite, strip, signedT10, data, len(signedT10), len(data))
	good("strip")
	move(ibv.OpRead, strip, data, signedT10, len(signedT10), len(data))
	good("insert")
	move(ibv.OpWrite, &BlockSignature{Wire: crc}, data, signedCRC, len(data), len(signedCRC))
	move(ibv.OpRead, &BlockSignature{Wire: crcC, Check: CRC32Bytes}, signedC, data, len(data), len(signedC))
	good("CRC32C")
	move(ibv.OpRead, &BlockSignature{Memory: dif, Wire: crc, Check: CRC32Bytes}, signedCRC, signedT10, len(signedT10),
		len(signedCRC))
	good("convert")
	// Lengths count bytes on the wire, and the last block may end before its signature, as in rdma-core's own tests.
	move(ibv.OpWrite, &BlockSignature{Wire: crc}, data[:1024], signedCRC[:1028], 1024, 1028)
	move(ibv.OpRead, &BlockSignature{Wire: crcC, Check: CRC32Bytes}, signedC[:1028], data[:1024], 1024, 1028)
	good("a block without its signature")
	zero := *dif
	zero.T10DIF = &BlockT10DIF{Guard: GuardCRC, AppTag: 0x77, RefTag: 5}
	copied := bytes.Clone(signedT10) // everything but the guard is the wire's
	for i := range blocks {
		at := i*520 + 512
		binary.BigEndian.PutUint16(copied[at+2:], 0x77)
		binary.BigEndian.PutUint32(copied[at+4:], 5)
	}
	guard := T10DIFGuard
	move(ibv.OpWrite, &BlockSignature{Memory: dif, Wire: &zero, Copy: &guard}, signedT10, copied, len(signedT10),
		len(copied))
	fresh := bytes.Clone(copied)
	for i := range blocks {
		binary.BigEndian.PutUint16(fresh[i*520+512:], t10Guard(0, data[i*512:][:512]))
	}
	move(ibv.OpWrite, &BlockSignature{Memory: dif, Wire: &zero, Copy: &none}, signedT10, fresh, len(signedT10),
		len(fresh))
	good("copy")

	bad := func(at int, want SigError, sig *BlockSignature, from []byte, op ibv.Opcode) {
		t.Helper()
		spoiled := bytes.Clone(from)
		spoiled[at] ^= 1
		size := map[bool]int{true: len(from), false: len(data)}[op == ibv.OpWrite]
		out := bytes.Clone(data)
		move(op, sig, spoiled, out, size, len(from)+len(data)-size)
		err := s.key.Check()
		var e *SigError
		if !errors.As(err, &e) || *e != want {
			t.Errorf("%v, want %+v", err, want)
		}
		good("told once")
	}
	sum := t10Guard(0xffff, data[512:1024])
	bad(520+512, SigError{SigBadGuard, uint64(sum ^ 0x100), uint64(sum), 520}, strip, signedT10, ibv.OpWrite)
	bad(520+515, SigError{SigBadAppTag, 0x1235, 0x1234, 520}, strip, signedT10, ibv.OpWrite)
	bad(520+519, SigError{SigBadRefTag, 0xfffffffe, 0xffffffff, 520}, strip, signedT10, ibv.OpWrite)
	c := crc32.Checksum(data[:512], castagnoli)
	bad(515, SigError{SigBadGuard, uint64(c ^ 1), uint64(c), 0}, &BlockSignature{Wire: crcC, Check: CRC32Bytes},
		signedC, ibv.OpRead)
	guardOnly := &BlockSignature{Memory: dif, Check: T10DIFGuard}
	tags := bytes.Clone(signedT10)
	tags[515] ^= 1
	move(ibv.OpWrite, guardOnly, tags, data, len(tags), len(data))
	good("what is not checked")

	// The peer writes through the key.
	change := must(s.key.Change(&MkeyConfig{Access: ibv.LocalWrite | ibv.RemoteWrite,
		List: []ibv.SGE{s.mr.SGE(100, len(signedT10))}, Signature: &BlockSignature{Memory: dif, Wire: crcC,
			Check: CRC32Bytes}}))(t)
	for i, spoil := range []byte{0, 1} {
		copy(m[flat:], signedC)
		m[flat+600] ^= spoil
		post(t, s.qp, ibv.SendWR{Opcode: ibv.OpDriver1, Mkey: change}, ibv.SendWR{ID: 1, Opcode: ibv.OpWrite,
			Flags: ibv.Signaled, SGEs: []ibv.SGE{s.mr.SGE(flat, len(signedC))},
			Remote: ibv.RemoteAddr{RKey: s.key.RKey()}})
		s.done(1)
		var e *SigError
		err := s.key.Check()
		if errors.As(err, &e) != (i == 1) || i == 1 && (e.Kind != SigBadGuard || e.Offset != 516) {
			t.Errorf("%d: %v", i, err)
		}
		if i == 0 && !bytes.Equal(m[100:][:len(signedT10)], signedT10) {
			t.Error("what the peer wrote is not signed as memory wants it")
		}
	}

	reset := must(s.key.Change(&MkeyConfig{ResetSignature: true, List: []ibv.SGE{s.mr.SGE(0, 100)}}))(t)
	copy(m, "as it is")
	post(t, s.qp, ibv.SendWR{Opcode: ibv.OpDriver1, Mkey: reset}, ibv.SendWR{ID: 1, Opcode: ibv.OpWrite,
		Flags: ibv.Signaled, SGEs: []ibv.SGE{{Length: 100, LKey: s.key.LKey()}}, Remote: s.mr.Remote().At(flat)})
	s.done(1)
	if string(m[flat:][:8]) != "as it is" {
		t.Error("a key whose signature was reset signs")
	}
	badSignatures(t, s, dif, crc)
}

// badSignatures asks for signatures that are wrong, or that the device lacks.
func badSignatures(t *testing.T, s *mkeySide, dif, crc *SigDomain) {
	with := func(edit func(d *SigDomain)) *BlockSignature {
		d := *dif
		tag := *d.T10DIF
		d.T10DIF = &tag
		edit(&d)
		return &BlockSignature{Memory: &d}
	}
	mask := SigBytes(1)
	for want, sig := range map[string]*BlockSignature{
		"Signature":                       {},
		"Signature.Memory.BlockSize":      with(func(d *SigDomain) { d.BlockSize = Block512 | Block520 }),
		"Signature.Memory.T10DIF and CRC": with(func(d *SigDomain) { d.CRC = crc.CRC }),
		"Signature.Memory.T10DIF.Guard":   with(func(d *SigDomain) { d.T10DIF.Guard = 0 }),
		"Signature.Memory.T10DIF.Seed":    with(func(d *SigDomain) { d.T10DIF.Seed = 1 }),
		"Signature.Memory.T10DIF.Flags":   with(func(d *SigDomain) { d.T10DIF.Flags = 8 }),
		"Signature.Wire.CRC.Type":         {Wire: &SigDomain{BlockSize: Block512, CRC: &BlockCRC{}}},
		"Signature.Wire.CRC.Seed": {Wire: &SigDomain{BlockSize: Block512,
			CRC: &BlockCRC{Type: CRC32, Seed: 1}}},
		"Signature.Copy": {Memory: dif, Wire: crc, Copy: &mask},
	} {
		var e *ibv.ArgError
		if _, err := s.key.Change(&MkeyConfig{Signature: sig}); !errors.As(err, &e) || e.Arg != want {
			t.Errorf("%v, want an ArgError of %s", err, want)
		}
	}
	xp10 := &BlockSignature{Wire: &SigDomain{BlockSize: Block512, CRC: &BlockCRC{Type: CRC64XP10}}}
	var u *ibv.UnsupportedError
	if _, err := s.key.Change(&MkeyConfig{Signature: xp10}); !errors.As(err, &u) {
		t.Errorf("%v, want an UnsupportedError", err)
	}
	all, err := CreateQP(s.pd, s.cq, s.cq, &QPOptions{QPOptions: ibv.QPOptions{SignalAll: true, MaxInline: 160},
		DriverOps: WithMkeyConfigure})
	ok(t, err)
	small := must(CreateQP(s.pd, s.cq, s.cq, &QPOptions{QPOptions: ibv.QPOptions{MaxSendWR: 1, MaxInline: 160},
		DriverOps: WithMkeyConfigure}))(t)
	change := must(s.key.Change(&MkeyConfig{Signature: &BlockSignature{Memory: dif, Wire: crc}}))(t)
	for _, qp := range []*ibv.QP{all, small} {
		loop(t, qp)
		_, err := qp.PostSend([]ibv.SendWR{{Opcode: ibv.OpDriver1, Mkey: change}})
		var l *ibv.LimitError
		if qp == all && !errors.As(err, &u) || qp == small && !errors.As(err, &l) && qp.Cap().MaxSendWR < 3 {
			t.Errorf("%v, want a refusal", err)
		}
		ok(t, qp.Close())
	}
}
