package mlx5

import (
	"encoding/binary"
	"fmt"
	"sync"
	"syscall"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/work"
)

// SignedKey follows an indirect memory key with a signature, with encryption, or both: a change of the key repeats what
// an earlier one has set, and its next change arms it again after a wrong signature. The zero value is a key with
// neither. It is safe for concurrent use.
//
// C: struct mlx5_mkey (rdma-core v44.0, providers/mlx5/mlx5.h).
type SignedKey struct {
	Signs    bool
	PSV      [2]uint32 // where the device keeps the state of each domain
	Encrypts bool
	Several  bool // the device encrypts several units at a time

	mu    sync.Mutex
	now   keySetup
	armed bool   // the device knows count
	count uint32 // wrong signatures, but for the first
	isNew bool   // wrong is, since the last Check
	wrong sigError

	before keySetup // what was set when the queue by was rung last, at work request at
	by     any
	at     uint32
}

// sigError describes a wrong signature.
type sigError struct {
	syndrome         uint16
	kind, domain     uint8
	actual, expected uint64
	offset           uint64
}

// Bits of sigError.syndrome. C: MLX5_SIGERR_CQE_SYNDROME_* (rdma-core v44.0, providers/mlx5/verbs.c).
const (
	wrongRefTag = 1 << 11
	wrongAppTag = 1 << 12
	wrongGuard  = 1 << 13
)

// change has the parts of a change of a key besides its layout and its rights.
type change struct {
	mask      uint64 // of the key's context
	flags     uint64 // in the key's context
	sig, enc  bool   // entries that follow the layout
	psv       bool   // the state of the domains is set afterwards
	setup     keySetup
	arms      bool   // tells the device count
	count     uint32 // of wrong signatures
	psvs      [2]uint32
	bigEndian bool // the tweak
}

// states returns how many domains get their state.
func (c *change) states() (n uint32) {
	for i := range c.setup.domain {
		if c.psv && c.setup.domain[i].Is() {
			n++
		}
	}
	return n
}

// plan returns the parts of a change of the key that queue q posts, which was rung last at work request rung.
func (k *SignedKey) plan(q any, rung uint32, m *work.MkeyUpdate) (c change) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.by != q || k.at != rung {
		k.before, k.by, k.at = k.now, q, rung
	}
	c = change{setup: k.now, psvs: k.PSV, bigEndian: k.Several, arms: k.Signs && !k.armed, count: k.count}
	s := &c.setup
	s.next(m)
	if c.arms {
		c.mask |= umrMaskSigErr
		c.flags |= uint64(c.count+1) & 1 << sigErrShift
		c.psv = s.sig == setBefore
	}
	switch {
	case s.enc == setNow, s.sig == setNow, k.Encrypts && s.sig == setNoMore:
		c.sig, c.enc = k.Signs, s.enc == setNow || s.enc == setBefore
		c.psv = c.psv || s.sig == setNow
		c.mask |= umrMaskBSF
		c.flags |= mkeyBSF
	case k.Signs && !k.Encrypts && s.sig != setBefore:
		c.mask |= umrMaskBSF // and no flag
	}
	return c
}

// took records a change that is in a queue.
func (k *SignedKey) took(c *change) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.now = c.setup
	k.armed = k.armed || c.arms && c.count == k.count
}

// Undo forgets the changes that queue q has posted since it was rung last, at work request rung: they were discarded.
// The next change arms the key again, because one of them may have done it.
func (k *SignedKey) Undo(q any, rung uint32) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.armed = false
	if k.by == q && k.at == rung {
		k.now, k.by = k.before, nil
	}
}

// Refuses returns what a change asks for that the device does not do, "" if there is nothing.
//
// C: get_crypto_order, crypto_umr_wqe_finalize (rdma-core v44.0, providers/mlx5/qp.c).
func (k *SignedKey) Refuses(m *work.MkeyUpdate) string {
	if k == nil || !k.Encrypts {
		return ""
	}
	k.mu.Lock()
	s := k.now
	k.mu.Unlock()
	s.next(m)
	if s.enc == setNever {
		return ""
	}
	both := s.domain[work.SigMemory].Is() && s.domain[work.SigWire].Is()
	if o := s.order(); both && (o == rawWire || o == rawMemory) {
		return "a signature in memory and on the wire, with an encryption of both"
	}
	if !k.Several && s.length > blockBytes[s.crypto.DataUnitSize] {
		return "more memory under a key than one unit of encryption"
	}
	return ""
}

// noteWrong records the wrong signature that entry e reports.
func (k *SignedKey) noteWrong(e *[64]byte) {
	be := binary.BigEndian
	pair := func(high, low int) uint64 { return uint64(be.Uint32(e[high:]))<<32 | uint64(be.Uint32(e[low:])) }
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count++
	k.armed = false
	k.isNew = true
	k.wrong = sigError{syndrome: be.Uint16(e[32:]), kind: e[34] & 7, domain: e[35] & 7, expected: pair(16, 24),
		actual: pair(20, 28), offset: be.Uint64(e[40:])}
}

// Check returns the last wrong signature since the last Check. The error matches EINVAL.
func (k *SignedKey) Check() (info abi.MLX5DVMkeyErr, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w := &k.wrong
	if !k.isNew {
		return info, nil
	}
	k.isNew = false
	of := work.SigWire
	if w.domain == 1 {
		of = work.SigMemory
	}
	d := &k.now.domain[of]
	if w.syndrome&(wrongRefTag|wrongAppTag|wrongGuard) == 0 || w.kind != 0 || w.domain > 1 || !d.Is() {
		return info, fmt.Errorf("the device reports a wrong signature that the key does not have, of syndrome %#x, "+
			"type %d and domain %d: %w", w.syndrome, w.kind, w.domain, syscall.EINVAL)
	}
	shift, mask := 0, uint64(0xffffffff)
	switch {
	case w.syndrome&wrongRefTag != 0:
		info.ErrType = abi.MLX5DV_MKEY_SIG_BLOCK_BAD_REFTAG
	case w.syndrome&wrongAppTag != 0:
		info.ErrType, shift, mask = abi.MLX5DV_MKEY_SIG_BLOCK_BAD_APPTAG, 32, 0xffff
	default:
		info.ErrType, shift, mask = abi.MLX5DV_MKEY_SIG_BLOCK_BAD_GUARD, 32, 1<<32-1
		if d.IsDIF {
			shift = 48
		} else if d.CRC.Type == abi.MLX5DV_SIG_CRC_TYPE_CRC64_XP10 {
			shift, mask = 0, 1<<64-1
		}
	}
	info.Err = abi.MLX5DVSigErr{ActualValue: w.actual >> shift & mask, ExpectedValue: w.expected >> shift & mask,
		Offset: w.offset}
	return info, nil
}
