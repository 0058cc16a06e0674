package mlx5

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/work"
)

// An entry behind the layout of a key describes its signature, or how it encrypts. C: struct mlx5_bsf, struct
// mlx5_crypto_bsf and MLX5_BSF_* (rdma-core v44.0, providers/mlx5/wqe.h).
const (
	bsfSegs       = 64 / segSize
	bsfAlone      = 2 << 6
	bsfOfTwo      = 3 << 6 // a signature and an encryption
	bsfAlike      = 1 << 4 // blocks have one structure in memory and on the wire
	bsfEncryption = 1
	bsfAnySize    = 1<<32 - 1
)

// blockSelector has, by enum mlx5dv_block_size, how the device calls a size.
var blockSelector = [...]uint64{abi.MLX5DV_BLOCK_SIZE_512: 1, abi.MLX5DV_BLOCK_SIZE_520: 2,
	abi.MLX5DV_BLOCK_SIZE_4048: 6, abi.MLX5DV_BLOCK_SIZE_4096: 3, abi.MLX5DV_BLOCK_SIZE_4160: 4}

// segs returns how many segments the entries take.
func (c *change) segs() (n int) {
	if c.sig {
		n = bsfSegs
	}
	if c.enc {
		n += bsfSegs
	}
	return n
}

// putBSFs adds the entries of a change.
func putBSFs(q *SQ, c *change) {
	kind := uint64(bsfAlone)
	if c.sig && c.enc {
		kind = bsfOfTwo
	}
	if c.sig {
		putSigBSF(q, c, kind)
	}
	if c.enc {
		putCryptoBSF(q, c, kind)
	}
}

// putSigBSF adds the entry of a signature.
func putSigBSF(q *SQ, c *change, kind uint64) {
	s := &c.setup
	mem, wire := &s.domain[work.SigMemory], &s.domain[work.SigWire]
	head := uint64(0)
	if mem.Is() {
		head = blockSelector[mem.Size]
	}
	if alike, same := s.alike(); alike {
		if s.copies {
			same = s.copy
		}
		kind |= bsfAlike
		head |= uint64(same) << 8
	} else if wire.Is() {
		head |= blockSelector[wire.Size] << 8
	}
	if mem.Is() || wire.Is() {
		head |= uint64(s.check) << 16
	}
	q.zeros(1, kind<<56|head<<32|bsfAnySize, domainPSV(wire, c.psvs[work.SigWire])<<32|
		domainPSV(mem, c.psvs[work.SigMemory]))
	q.zeros(1, 0, 0)
	q.zeros(1, inlineDIF(wire), inlineDIFFlags(wire))
	q.zeros(1, inlineDIF(mem), inlineDIFFlags(mem))
}

// domainPSV returns what a domain's CRC is, and where its state is.
func domainPSV(d *work.SigDomain, psv uint32) uint64 {
	const unseeded, repeats = 1, 2 // C: MLX5_BFS_CRC_SEED_BIT, MLX5_BFS_CRC_REPEAT_BIT
	if !d.Is() {
		return 0
	}
	format := uint64(0)
	if d.IsCRC {
		format = [...]uint64{abi.MLX5DV_SIG_CRC_TYPE_CRC32: 0x20, abi.MLX5DV_SIG_CRC_TYPE_CRC32C: 0x40,
			abi.MLX5DV_SIG_CRC_TYPE_CRC64_XP10: 0x50}[d.CRC.Type] | repeats
		if d.CRC.Seed == 0 {
			format |= unseeded
		}
	}
	return format<<24 | uint64(psv&numberMask)
}

// inlineDIF returns the first word of what a domain's T10-DIF is.
func inlineDIF(d *work.SigDomain) uint64 {
	const valid, refresh = 1 << 15, 1 << 14
	if !d.IsDIF {
		return 0
	}
	return (valid|refresh)<<48 | uint64(d.T10DIF.AppTag)<<32 | uint64(d.T10DIF.RefTag)
}

// inlineDIFFlags returns the second word.
func inlineDIFFlags(d *work.SigDomain) uint64 {
	const (
		crc, checksum = 1 << 56, 2 << 56
		repeats, seed = 1 << 55, 1 << 51
		growing       = 1 << 22
		app, appRef   = 1 << 16, 2 << 16
		allOfApp      = 0xffff
	)
	if !d.IsDIF {
		return 0
	}
	v, t := uint64(repeats|allOfApp|checksum), &d.T10DIF
	if t.BGType == abi.MLX5DV_SIG_T10DIF_CRC {
		v ^= checksum | crc
	}
	if t.BG != 0 {
		v |= seed
	}
	if t.Flags&abi.MLX5DV_SIG_T10DIF_FLAG_REF_REMAP != 0 {
		v |= growing
	}
	switch {
	case t.Flags&abi.MLX5DV_SIG_T10DIF_FLAG_APP_REF_ESCAPE != 0:
		v |= appRef
	case t.Flags&abi.MLX5DV_SIG_T10DIF_FLAG_APP_ESCAPE != 0:
		v |= app
	}
	return v
}

// putCryptoBSF adds the entry of an encryption.
func putCryptoBSF(q *SQ, c *change, kind uint64) {
	s, be := &c.setup, binary.BigEndian
	tweak := s.crypto.InitialTweak
	if c.bigEndian {
		for i := range tweak {
			tweak[i] = s.crypto.InitialTweak[len(tweak)-1-i]
		}
	}
	q.zeros(1, (kind|bsfEncryption)<<56|s.order()<<48|bsfAnySize, blockSelector[s.crypto.DataUnitSize]<<56)
	q.zeros(1, be.Uint64(tweak[:]), be.Uint64(tweak[8:]))
	q.zeros(1, uint64(s.dek&numberMask)<<32, be.Uint64(s.crypto.Keytag[:]))
	q.zeros(1, 0, 0)
}

// putPSVs adds the work requests that set the state of a key's domains. There is room for them.
func putPSVs(q *SQ, id uint64, flags uint32, c *change) {
	for i, d := range c.setup.domain {
		if !d.Is() {
			continue
		}
		f := flags
		if i == work.SigMemory && c.setup.domain[work.SigWire].Is() {
			f &^= sendSignaled
		}
		q.Begin(work.Mkey, f, 0, 1)
		q.wqe.op = opSetPSV
		q.zeros(1, uint64(c.psvs[i])<<32, initialState(&d))
		q.Commit(id)
		q.fence = ctrlSmallFence
	}
}

// initialState returns the state of a signature before the first block. C: psv_transient_signature.
func initialState(d *work.SigDomain) uint64 {
	switch {
	case d.IsDIF:
		return uint64(d.T10DIF.BG)<<48 | uint64(d.T10DIF.AppTag)<<32 | uint64(d.T10DIF.RefTag)
	case d.CRC.Type == abi.MLX5DV_SIG_CRC_TYPE_CRC64_XP10:
		return d.CRC.Seed
	}
	return d.CRC.Seed << 32
}
