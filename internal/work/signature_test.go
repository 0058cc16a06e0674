package work

import (
	"testing"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
)

// Each domain leads to its own signature.
func TestSignature(t *testing.T) {
	s := new(Signature)
	if s.Domains() != 0 {
		t.Errorf("%d domains of none", s.Domains())
	}
	dif, crc := abi.MLX5DVSigT10DIF{BG: 0xffff, AppTag: 2, RefTag: 3}, abi.MLX5DVSigCRC{Type: 1, Seed: 7}
	s.T10DIF(SigMemory, 4, dif)
	if s.Domains() != 1 || s.Attr.Wire != 0 {
		t.Errorf("%d domains, that of the wire at %#x", s.Domains(), s.Attr.Wire)
	}
	s.CRC(SigWire, 5, crc)
	mem, wire := cmem.At[abi.MLX5DVSigBlockDomain](s.Attr.Mem), cmem.At[abi.MLX5DVSigBlockDomain](s.Attr.Wire)
	if mem.SigType != abi.MLX5DV_SIG_TYPE_T10DIF || mem.BlockSize != 4 ||
		*cmem.At[abi.MLX5DVSigT10DIF](mem.Sig) != dif {
		t.Errorf("memory: %+v", mem)
	}
	if wire.SigType != abi.MLX5DV_SIG_TYPE_CRC || wire.BlockSize != 5 || *cmem.At[abi.MLX5DVSigCRC](wire.Sig) != crc {
		t.Errorf("wire: %+v", wire)
	}
	if s.Domains() != 2 {
		t.Errorf("%d domains of two", s.Domains())
	}
}
