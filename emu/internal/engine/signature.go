//go:build linux

package engine

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

// Selectors of a BSF. C: MLX5_BFS_*, bs_selector of bs_to_bs_selector.
const (
	bfsSeedZero = 0x1
	bfsCRC32    = 0x20
	bfsCRC32C   = 0x40
	bfsKind     = 0xf0

	bsfSameBlocks = 1 << 4
	inlineValid   = 1 << 15
	inlineOnes    = 1 << 3
	inlineGrows   = 1 << 6
	inlineSum     = 2
)

var blockSizes = [8]int{1: 512, 2: 520, 3: 4096, 4: 4160, 6: 4048}

// signature reads a BSF. It returns nil if it is none that this adapter knows.
func signature(b []byte) *hca.Signature {
	be := binary.BigEndian
	s := &hca.Signature{Check: b[1]}
	domain := func(size int, bfs byte, inl []byte) (d hca.SigDomain, ok bool) {
		d = hca.SigDomain{Block: size, CRC: bfs & bfsKind}
		if d.CRC != 0 {
			d.Ones = bfs&bfsSeedZero == 0
			return d, d.CRC == bfsCRC32 || d.CRC == bfsCRC32C
		}
		d.App, d.Ref = be.Uint16(inl[2:]), be.Uint32(inl[4:])
		d.Sum, d.Ones = inl[8] == inlineSum, inl[9]&inlineOnes != 0
		d.Grows, d.Escape = inl[13]&inlineGrows != 0, inl[13]&3
		return d, be.Uint16(inl)&inlineValid != 0
	}
	ok := true
	if size := blockSizes[b[3]&7]; size != 0 {
		s.Memory, ok = domain(size, b[12], b[48:])
	}
	size := blockSizes[b[2]&7]
	if b[0]&bsfSameBlocks != 0 {
		size, s.Copy = s.Memory.Block, b[2]
	}
	if ok && size != 0 {
		s.Wire, ok = domain(size, b[8], b[32:])
	}
	if !ok || s.Memory.Block == 0 && s.Wire.Block == 0 {
		return nil
	}
	return s
}

// sigSize returns the bytes of a signature.
func sigSize(d *hca.SigDomain) int {
	switch {
	case d.Block == 0:
		return 0
	case d.CRC != 0:
		return 4
	}
	return 8
}

// sign makes the signature of block i.
func sign(d *hca.SigDomain, i int, data []byte, sig []byte) {
	if d.CRC != 0 {
		table := crc32.IEEETable
		if d.CRC == bfsCRC32C {
			table = crc32.MakeTable(crc32.Castagnoli)
		}
		first := ^uint32(0)
		if d.Ones {
			first = 0
		}
		binary.BigEndian.PutUint32(sig, crc32.Update(first, table, data))
		return
	}
	guard := uint16(0)
	if d.Ones {
		guard = 0xffff
	}
	if d.Sum {
		guard = ^uint16(sum(uint32(guard), data)) // as of the Internet protocols
	} else {
		guard = t10(guard, data)
	}
	ref := d.Ref
	if d.Grows {
		ref += uint32(i)
	}
	binary.BigEndian.PutUint16(sig, guard)
	binary.BigEndian.PutUint16(sig[2:], d.App)
	binary.BigEndian.PutUint32(sig[4:], ref)
}

// t10Table has the CRC of T10-DIF, x^16+x^15+x^11+x^9+x^8+x^7+x^5+x^4+x^2+x+1, of each byte.
var t10Table = func() (t [256]uint16) {
	for i := range t {
		c := uint16(i) << 8
		for range 8 {
			c = c<<1 ^ c>>15*0x8bb7
		}
		t[i] = c
	}
	return t
}()

func t10(crc uint16, data []byte) uint16 {
	for _, b := range data {
		crc = crc<<8 ^ t10Table[byte(crc>>8)^b]
	}
	return crc
}

// Parts of a signature of T10-DIF, as bytes of a mask, and syndromes. C: MLX5DV_SIG_MASK_*, MLX5_SIGERR_CQE_SYNDROME_*.
const (
	maskGuard = 0xc0
	maskApp   = 0x30
	maskRef   = 0x0f

	sigErrRef   = 1 << 11
	sigErrApp   = 1 << 12
	sigErrGuard = 1 << 13
)

// mismatch compares the signature of a block with what it has to be, and returns the syndrome, 0 for none.
func mismatch(d *hca.SigDomain, check byte, got, want []byte) uint16 {
	be := binary.BigEndian
	if d.CRC != 0 {
		if check&0xf0 != 0 && be.Uint32(got) != be.Uint32(want) {
			return sigErrGuard
		}
		return 0
	}
	app, ref := be.Uint16(got[2:]), be.Uint32(got[4:])
	switch {
	case d.Escape&1 != 0 && app == 0xffff, d.Escape&2 != 0 && app == 0xffff && ref == 0xffffffff:
		return 0
	case check&maskGuard != 0 && be.Uint16(got) != be.Uint16(want):
		return sigErrGuard
	case check&maskApp != 0 && app != be.Uint16(want[2:]):
		return sigErrApp
	case check&maskRef != 0 && ref != be.Uint32(want[4:]):
		return sigErrRef
	}
	return 0
}

// translate turns data of one domain into that of another: it looks at the signatures of from, and makes those of to.
// It returns the first that is wrong.
func translate(s *hca.Signature, from, to *hca.SigDomain, in []byte) (out []byte, bad *sigError) {
	var raw, sigs []byte
	n := sigSize(from)
	for i := 0; n > 0 && len(in) >= from.Block+n; i++ {
		block, sig := in[:from.Block], in[from.Block:from.Block+n]
		var want [8]byte
		sign(from, i, block, want[:])
		if syn := mismatch(from, s.Check, sig, want[:]); syn != 0 && bad == nil {
			bad = &sigError{syndrome: syn, offset: uint64(i * (from.Block + n))}
			copy(bad.got[:], sig)
			copy(bad.want[:], want[:n])
		}
		raw, sigs = append(raw, block...), append(sigs, sig...)
		in = in[from.Block+n:]
	}
	raw = append(raw, in...) // all, or a block without its signature
	k := sigSize(to)
	if k == 0 {
		return raw, bad
	}
	for i := 0; len(raw) >= to.Block; i++ {
		var sig [8]byte
		sign(to, i, raw[:to.Block], sig[:])
		for j := range k {
			if n == k && s.Copy>>(7-j)&1 != 0 && i*k < len(sigs) {
				sig[j] = sigs[i*k+j]
			}
		}
		out, raw = append(append(out, raw[:to.Block]...), sig[:k]...), raw[to.Block:]
	}
	return append(out, raw...), bad
}

// sigError is a signature that is not what it has to be.
type sigError struct {
	syndrome  uint16
	got, want [8]byte
	offset    uint64
}
