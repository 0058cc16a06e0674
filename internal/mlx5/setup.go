package mlx5

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/work"
)

// keySetup is the state of a key after its changes.
type keySetup struct {
	sig    setupStep
	domain [2]work.SigDomain
	check  uint8
	copies bool // copy has a meaning
	copy   uint8

	length uint64 // of the layout
	enc    setupStep
	crypto abi.MLX5DVCryptoAttr
	dek    uint32
}

// setupStep is when something was set. C: enum mlx5_mkey_bsf_state.
type setupStep uint8

const (
	setNever setupStep = iota
	setNow             // by the change that is posted
	setBefore
	setNoMore // removed by the change that is posted
)

// next applies a change.
func (s *keySetup) next(m *work.MkeyUpdate) {
	switch {
	case m.Conf.ConfFlags&abi.MLX5DV_MKEY_CONF_FLAG_RESET_SIG_ATTR != 0:
		s.sig, s.domain = setNoMore, [2]work.SigDomain{}
	case s.sig == setNow:
		s.sig = setBefore
	case s.sig == setNoMore:
		s.sig = setNever
	}
	if s.enc == setNow {
		s.enc = setBefore
	}
	if _, ok := m.Entries(); ok {
		s.length = m.Length()
	}
	if a := m.Signature; a != nil {
		s.sig = setNow
		s.domain = [2]work.SigDomain{a.Domain(work.SigMemory), a.Domain(work.SigWire)}
		s.check, s.copy = a.Attr.CheckMask, a.Attr.CopyMask
		s.copies = a.Attr.Flags&abi.MLX5DV_SIG_BLOCK_ATTR_FLAG_COPY_MASK != 0
	}
	if m.Crypto != nil {
		s.enc, s.crypto, s.dek = setNow, *m.Crypto, m.DEK
	}
}

// alike reports whether the blocks of both domains have one structure, and which bytes of the signatures are then the
// same.
func (s *keySetup) alike() (is bool, same uint8) {
	m, w := &s.domain[work.SigMemory], &s.domain[work.SigWire]
	if !w.Is() || m.IsDIF != w.IsDIF || m.IsCRC != w.IsCRC || m.Size != w.Size || m.CRC.Type != w.CRC.Type {
		return false, 0
	}
	switch {
	case w.IsCRC && w.CRC.Type == abi.MLX5DV_SIG_CRC_TYPE_CRC64_XP10:
		return true, abi.MLX5DV_SIG_MASK_CRC64_XP10
	case w.IsCRC:
		return true, abi.MLX5DV_SIG_MASK_CRC32
	}
	if m.T10DIF.BGType == w.T10DIF.BGType && m.T10DIF.BG == w.T10DIF.BG {
		same |= abi.MLX5DV_SIG_MASK_T10DIF_GUARD
	}
	if m.T10DIF.AppTag == w.T10DIF.AppTag {
		same |= abi.MLX5DV_SIG_MASK_T10DIF_APPTAG
	}
	if m.T10DIF.RefTag == w.T10DIF.RefTag {
		same |= abi.MLX5DV_SIG_MASK_T10DIF_REFTAG
	}
	return true, same
}

// Where the device encrypts. C: MLX5_ENCRYPTION_ORDER_*.
const (
	wireSignature = iota
	memorySignature
	rawWire
	rawMemory
)

func (s *keySetup) order() uint64 {
	after := s.crypto.SignatureCryptoOrder == abi.MLX5DV_SIGNATURE_CRYPTO_ORDER_SIGNATURE_AFTER_CRYPTO_ON_TX
	switch {
	case s.crypto.EncryptOnTx != 0 && after:
		return rawWire
	case s.crypto.EncryptOnTx != 0:
		return wireSignature
	case after:
		return memorySignature
	}
	return rawMemory
}

// blockBytes has the sizes.
var blockBytes = [...]uint64{abi.MLX5DV_BLOCK_SIZE_512: 512, abi.MLX5DV_BLOCK_SIZE_520: 520,
	abi.MLX5DV_BLOCK_SIZE_4048: 4048, abi.MLX5DV_BLOCK_SIZE_4096: 4096, abi.MLX5DV_BLOCK_SIZE_4160: 4160}
