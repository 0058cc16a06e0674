package mlx5dv

import (
	"fmt"
	"math"
	"math/bits"

	"github.com/pureverbs/pureverbs/ibv"
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/work"
)

// BlockSignature describes what the device adds, checks and removes in blocks of data between memory and wire. A domain
// without a signature is nil.
//
// C: struct mlx5dv_sig_block_attr.
type BlockSignature struct {
	Memory *SigDomain
	Wire   *SigDomain
	Check  SigBytes // what is compared
	// Copy selects the parts that are copied from one domain to the other if both have the same structure, instead of
	// the parts that both have in common; nil for that.
	Copy *SigBytes
}

// SigDomain is the signature of each block in memory, or on the wire. One of T10DIF and CRC is set.
//
// C: struct mlx5dv_sig_block_domain.
type SigDomain struct {
	BlockSize BlockSizes // one
	T10DIF    *BlockT10DIF
	CRC       *BlockCRC
}

// BlockT10DIF is a signature of 8 bytes: a guard of 2, an application tag of 2, and a reference tag of 4.
//
// C: struct mlx5dv_sig_t10dif.
type BlockT10DIF struct {
	Guard  T10DIFGuards // one
	Seed   uint16       // of the guard: 0 or 0xffff
	AppTag uint16
	RefTag uint32 // of the first block
	Flags  T10DIFFlags
}

// The flags.
const (
	knownT10DIFFlags = RefRemap | AppEscape | AppRefEscape
)

// BlockCRC is a signature of 4 bytes, or of 8 with CRC64XP10.
//
// C: struct mlx5dv_sig_crc.
type BlockCRC struct {
	Type CRCs   // one
	Seed uint64 // 0, or all bits of the CRC
}

// SigBytes is a set of the 8 bytes of a signature, the highest bit for the first.
//
// C: enum mlx5dv_sig_mask.
type SigBytes uint8

// Parts of a signature.
const (
	T10DIFGuard    SigBytes = abi.MLX5DV_SIG_MASK_T10DIF_GUARD
	T10DIFAppTag   SigBytes = abi.MLX5DV_SIG_MASK_T10DIF_APPTAG
	T10DIFRefTag   SigBytes = abi.MLX5DV_SIG_MASK_T10DIF_REFTAG
	CRC32Bytes     SigBytes = abi.MLX5DV_SIG_MASK_CRC32
	CRC64XP10Bytes SigBytes = abi.MLX5DV_SIG_MASK_CRC64_XP10
)

// String returns the set as a number, as in SigBytes(0xf0).
func (b SigBytes) String() string { return fmt.Sprintf("SigBytes(%#x)", uint8(b)) }

// check reports what no device can do, and what this one does not.
func (s *BlockSignature) check(caps *Signature) error {
	if s.Memory == nil && s.Wire == nil {
		return &ibv.ArgError{Arg: "Signature", Got: "no domain", Want: "Memory, Wire or both"}
	}
	for i, d := range []*SigDomain{s.Memory, s.Wire} {
		if d == nil {
			continue
		}
		if err := d.check([]string{"Signature.Memory", "Signature.Wire"}[i], caps); err != nil {
			return err
		}
	}
	if s.Copy != nil && !s.alike() {
		return &ibv.ArgError{Arg: "Signature.Copy", Got: "set", Want: "nil: the domains differ in structure"}
	}
	return nil
}

// alike reports whether both domains have blocks of one structure.
func (s *BlockSignature) alike() bool {
	m, w := s.Memory, s.Wire
	if m == nil || w == nil || m.BlockSize != w.BlockSize || (m.CRC == nil) != (w.CRC == nil) {
		return false
	}
	return m.CRC == nil || m.CRC.Type == w.CRC.Type
}

func (d *SigDomain) check(arg string, caps *Signature) error {
	bad := func(field string, got, want any) error {
		return &ibv.ArgError{Arg: arg + "." + field, Got: fmt.Sprint(got), Want: fmt.Sprint(want)}
	}
	lacks := func(what, have fmt.Stringer) error {
		return &ibv.UnsupportedError{Feature: arg + " with " + what.String(),
			Need: "a device with it in DeviceAttr.Signature", Have: "one with " + have.String()}
	}
	t, c := d.T10DIF, d.CRC
	switch {
	case bits.OnesCount64(uint64(d.BlockSize)) != 1 || d.BlockSize > Block4160:
		return bad("BlockSize", d.BlockSize, "one of "+(Block4160<<1-1).String())
	case d.BlockSize&caps.BlockSizes == 0:
		return lacks(d.BlockSize, caps.BlockSizes)
	case (t == nil) == (c == nil):
		return bad("T10DIF and CRC", "none or both", "one of them")
	case t == nil:
	case t.Guard != GuardCRC && t.Guard != GuardChecksum:
		return bad("T10DIF.Guard", t.Guard, "GuardCRC or GuardChecksum")
	case caps.Protections&SigT10DIF == 0 || t.Guard&caps.T10DIF == 0:
		return lacks(t.Guard, caps.T10DIF)
	case t.Seed != 0 && t.Seed != math.MaxUint16:
		return bad("T10DIF.Seed", t.Seed, "0 or 0xffff")
	case t.Flags&^knownT10DIFFlags != 0:
		return bad("T10DIF.Flags", t.Flags, "of "+knownT10DIFFlags.String())
	}
	if c == nil {
		return nil
	}
	most := uint64(math.MaxUint32)
	if c.Type == CRC64XP10 {
		most = math.MaxUint64
	}
	switch {
	case bits.OnesCount16(uint16(c.Type)) != 1 || c.Type > CRC64XP10:
		return bad("CRC.Type", c.Type, "CRC32, CRC32C or CRC64XP10")
	case caps.Protections&SigCRC == 0 || c.Type&caps.CRC == 0:
		return lacks(c.Type, caps.CRC)
	case c.Seed != 0 && c.Seed != most:
		return bad("CRC.Seed", fmt.Sprintf("%#x", c.Seed), fmt.Sprintf("0 or %#x", most))
	}
	return nil
}

// toC returns the signature as libmlx5 takes it. It was checked.
func (s *BlockSignature) toC() *work.Signature {
	c := new(work.Signature)
	c.Attr.CheckMask = uint8(s.Check)
	if s.Copy != nil {
		c.Attr.Flags, c.Attr.CopyMask = abi.MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK, uint8(*s.Copy)
	}
	for i, d := range []*SigDomain{work.SigMemory: s.Memory, work.SigWire: s.Wire} {
		switch {
		case d == nil:
		case d.CRC != nil: // C counts where the capabilities have bits
			c.CRC(i, uint32(bits.TrailingZeros64(uint64(d.BlockSize))),
				abi.MLX5DVSigCRC{Type: uint32(bits.TrailingZeros16(uint16(d.CRC.Type))), Seed: d.CRC.Seed})
		default:
			t := d.T10DIF
			c.T10DIF(i, uint32(bits.TrailingZeros64(uint64(d.BlockSize))), abi.MLX5DVSigT10DIF{
				BGType: uint32(bits.TrailingZeros16(uint16(t.Guard))), BG: t.Seed, AppTag: t.AppTag, RefTag: t.RefTag,
				Flags: uint16(t.Flags)})
		}
	}
	return c
}

// SigError reports data whose signature was not as expected.
//
// C: struct mlx5dv_mkey_err.
type SigError struct {
	Kind             SigErrorKind
	Actual, Expected uint64
	Offset           uint64 // in the memory under the key, of the block's end
}

func (e *SigError) Error() string {
	return fmt.Sprintf("the %v of the block at offset %d is %#x, want %#x", e.Kind, e.Offset, e.Actual, e.Expected)
}

// Check returns a *SigError if the device has found a signature that is not as expected since the last
// Check, and nil if not. It learns of it when completions behind the bad data are polled: a work
// request does not fail for it.
//
// C: mlx5dv_mkey_check, of libmlx5 v36.
func (m *Mkey) Check() error {
	const op = "mlx5dv check mkey"
	name := m.PD().Device().Name()
	if m.flags&MkeyBlockSignature == 0 {
		return opError(op, name, &ibv.ArgError{Arg: "mkey", Got: "one without a signature",
			Want: "one made with MkeyBlockSignature"})
	}
	h, leave, err := verbs.Enter(m.Mkey, op)
	if err != nil {
		return err
	}
	defer leave()
	e, follows, err := verbs.CheckMkey(m.Mkey)
	if !follows {
		err = m.lib.MkeyCheck(h, &e)
	}
	if err != nil {
		return opError(op, name, err)
	}
	if e.ErrType == abi.MLX5DV_MKEY_NO_ERR {
		return nil
	}
	return opError(op, name, &SigError{SigErrorKind(e.ErrType), e.Err.ActualValue, e.Err.ExpectedValue, e.Err.Offset})
}
