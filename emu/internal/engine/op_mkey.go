//go:build linux

package engine

import (
	"bytes"
	"encoding/binary"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
)

const (
	maskSigError = 1 << 9
	maskBSF      = 1 << 12
	maskKey      = 1 << 13

	contextBSF = 1 << 6 // of the first byte of flags_pd
	bsfSize    = 64

	repeatBlock = 0x400 // C: the op of struct mlx5_wqe_umr_repeat_block_seg
)

// configure changes an indirect key, by a UMR in a batch of its own.
func (rq *requester) configure(qp *hca.QP, w *wqe, k *hca.MKey) verdict {
	b := w.umr
	mask, ctx := binary.BigEndian.Uint64(b[8:]), b[48:112]
	if k.PD != qp.PD || k.Key != w.imm || mask&maskFree == 0 {
		return rq.failed(qp, w, synMWBind)
	}
	if ctx[0]&contextFree != 0 {
		k.Free, k.Layout, k.Len = true, hca.Layout{}, 0
		return rq.done(qp, w, 0)
	}
	if n := int(binary.BigEndian.Uint16(b[4:])) * 16; n > 0 {
		l, ok := layout(b[112:], n)
		total := l.Len() * l.Repeat
		if !ok || n/16 > int(k.Indirect.Octowords) || mask&maskLen == 0 || total != binary.BigEndian.Uint64(ctx[24:]) {
			return rq.failed(qp, w, synMWBind)
		}
		k.Layout, k.Len = l, total
	}
	for _, a := range umrAccess {
		if mask&a.mask != 0 {
			k.Access &^= a.access
			if ctx[2]&a.bit != 0 {
				k.Access |= a.access
			}
		}
	}
	if mask&maskSigError != 0 {
		k.SigTold = false
	}
	if mask&maskBSF != 0 {
		k.Sig = nil
		if ctx[12]&contextBSF != 0 {
			at := 112 + int(binary.BigEndian.Uint16(b[4:]))*16
			if n := int(binary.BigEndian.Uint16(b[6:])); n != bsfSize/16 || len(b) < at+bsfSize ||
				uint32(n) > k.Indirect.BSFOctowords {
				return rq.failed(qp, w, synMWBind)
			}
			if k.Sig = signature(b[at:]); k.Sig == nil {
				return rq.failed(qp, w, synMWBind)
			}
		}
	}
	if mask&maskKey != 0 {
		k.Key = k.Key&^0xff | uint32(ctx[7])
	}
	k.Free = false
	return rq.done(qp, w, 0)
}

// layout reads the n bytes of a layout: entries of a length, a key and an address; or a head with the number of
// repetitions and of entries, each of a stride and a length, a key and an address. Zeros fill it up.
func layout(b []byte, n int) (l hca.Layout, ok bool) {
	if len(b) < n {
		return l, false
	}
	be := binary.BigEndian
	b = b[:n]
	if be.Uint32(b[4:]) != repeatBlock {
		for ; len(b) >= 16 && be.Uint32(b) != 0; b = b[16:] {
			l.Entries = append(l.Entries,
				hca.Entry{Len: uint64(be.Uint32(b)), Key: be.Uint32(b[4:]), Addr: be.Uint64(b[8:])})
		}
		l.Repeat = 1
		return l, len(l.Entries) > 0 && blank(b)
	}
	sum, entries := uint64(be.Uint32(b)), int(be.Uint16(b[14:]))
	l.Repeat = uint64(be.Uint32(b[8:]))
	for b = b[16:]; len(b) >= 16 && entries > 0; b = b[16:] {
		l.Entries = append(l.Entries, hca.Entry{Stride: uint64(be.Uint16(b)), Len: uint64(be.Uint16(b[2:])),
			Key: be.Uint32(b[4:]), Addr: be.Uint64(b[8:])})
		entries--
	}
	return l, l.Repeat > 0 && entries == 0 && len(l.Entries) > 0 && l.Len() == sum && sum > 0 && blank(b)
}

// blank reports whether nothing but zeros is left.
func blank(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }
