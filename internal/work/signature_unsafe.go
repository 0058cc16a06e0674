package work

import (
	"unsafe"

	"github.com/pureverbs/pureverbs/internal/abi"
)

// Signature is a block signature as C takes it. It is on the heap: its pointers lead to its own fields.
type Signature struct {
	Attr   abi.MLX5DVSigBlockAttr
	domain [2]abi.MLX5DVSigBlockDomain
	t10dif [2]abi.MLX5DVSigT10DIF
	crc    [2]abi.MLX5DVSigCRC
}

// Domains of a signature.
const (
	SigMemory = iota
	SigWire
)

// T10DIF gives a domain a signature of T10-DIF.
func (s *Signature) T10DIF(domain int, size uint32, d abi.MLX5DVSigT10DIF) {
	s.t10dif[domain] = d
	s.set(domain, abi.MLX5DV_SIG_TYPE_T10DIF, size, unsafe.Pointer(&s.t10dif[domain]))
}

// CRC gives a domain a signature of a CRC.
func (s *Signature) CRC(domain int, size uint32, c abi.MLX5DVSigCRC) {
	s.crc[domain] = c
	s.set(domain, abi.MLX5DV_SIG_TYPE_CRC, size, unsafe.Pointer(&s.crc[domain]))
}

func (s *Signature) set(domain int, kind, size uint32, sig unsafe.Pointer) {
	d := &s.domain[domain]
	*d = abi.MLX5DVSigBlockDomain{SigType: kind, Sig: uintptr(sig), BlockSize: size}
	if domain == SigMemory {
		s.Attr.Mem = uintptr(unsafe.Pointer(d))
	} else {
		s.Attr.Wire = uintptr(unsafe.Pointer(d))
	}
}

// Domains returns the number of domains with a signature.
func (s *Signature) Domains() (n uint32) {
	for _, p := range []uintptr{s.Attr.Mem, s.Attr.Wire} {
		if p != 0 {
			n++
		}
	}
	return n
}

// SigDomain is the signature of a domain. At most one of T10DIF and CRC is set.
type SigDomain struct {
	Size   uint32 // of the blocks. C: enum mlx5dv_block_size
	IsDIF  bool
	IsCRC  bool
	T10DIF abi.MLX5DVSigT10DIF
	CRC    abi.MLX5DVSigCRC
}

// Domain returns the signature of a domain.
func (s *Signature) Domain(domain int) (d SigDomain) {
	c := &s.domain[domain]
	switch {
	case c.Sig == 0:
	case c.SigType == abi.MLX5DV_SIG_TYPE_CRC:
		d = SigDomain{Size: c.BlockSize, IsCRC: true, CRC: s.crc[domain]}
	default:
		d = SigDomain{Size: c.BlockSize, IsDIF: true, T10DIF: s.t10dif[domain]}
	}
	return d
}

// Is reports whether there is one.
func (d *SigDomain) Is() bool { return d.IsDIF || d.IsCRC }
