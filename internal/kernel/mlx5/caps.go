package mlx5

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// Groups of QUERY_HCA_CAP. C: MLX5_SET_HCA_CAP_OP_MOD_*.
const (
	capsGeneral  = 0x00
	capsODP      = 0x02
	capsAtomic   = 0x03
	capsCrypto   = 0x1a
	capsGeneral2 = 0x20
)

// caps are bits that the firmware answered.
type caps []byte

// queryCaps asks the firmware for a group of capabilities. All are 0 if it does not answer, as without DevX.
func (c *context) queryCaps(group uint16) caps {
	const (
		queryCaps = 0x100 // C: MLX5_CMD_OP_QUERY_HCA_CAP
		current   = 1
		head      = 16 // of the answer
	)
	in, out := make([]byte, 16), make([]byte, head+4096)
	binary.BigEndian.PutUint16(in, queryCaps)
	binary.BigEndian.PutUint16(in[6:], group<<1|current)
	if c.general(in, out) != nil {
		return make(caps, 4096)
	}
	return out[head:]
}

// get returns a field of width bits that begins at bit at, within one word of 32 bits.
func (c caps) get(at, width int) uint32 {
	word := binary.BigEndian.Uint32(c[at/32*4:])
	return word >> (32 - at%32 - width) & (1<<width - 1)
}

func (c caps) has(at int) bool { return c.get(at, 1) != 0 }

// queryDriver asks for the driver's part of the attributes. What the kernel does not answer is zero.
func (c *context) queryDriver() (*abi.MLX5IBQueryDeviceResp, error) {
	d := new(abi.MLX5IBQueryDeviceResp)
	if c.info.CmdsSuppUhw&abi.MLX5_USER_CMDS_SUPP_UHW_QUERY_DEVICE == 0 {
		return d, nil
	}
	_, err := c.file.QueryDeviceEx(uverbs.Driver{Out: uverbs.Bytes(d)})
	return d, err
}

// choice is a flag to set if a bit is there.
type choice[T any] struct {
	is   bool
	flag T
}

// sum returns the flags whose bits are there.
func sum[T uint8 | uint16 | uint32 | uint64](list ...choice[T]) (all T) {
	for _, c := range list {
		if c.is {
			all |= c.flag
		}
	}
	return all
}

// signatures returns what block signatures the device has.
func (c caps) signatures() abi.MLX5DVSigCaps {
	if !c.has(0x217) || !c.has(0x480) { // C: sho, sigerr_domain_and_sig_type
		return abi.MLX5DVSigCaps{}
	}
	return abi.MLX5DVSigCaps{
		BlockProt: abi.MLX5DV_SIG_PROT_CAP_T10DIF | abi.MLX5DV_SIG_PROT_CAP_CRC,
		BlockSize: abi.MLX5DV_BLOCK_SIZE_CAP_512 | abi.MLX5DV_BLOCK_SIZE_CAP_520 | abi.MLX5DV_BLOCK_SIZE_CAP_4096 |
			abi.MLX5DV_BLOCK_SIZE_CAP_4160 | sum(choice[uint64]{c.has(0x1f0), abi.MLX5DV_BLOCK_SIZE_CAP_4048}),
		T10DIFBG: abi.MLX5DV_SIG_T10DIF_BG_CAP_CRC | abi.MLX5DV_SIG_T10DIF_BG_CAP_CSUM,
		CRCType: abi.MLX5DV_SIG_CRC_TYPE_CAP_CRC32 | sum(
			choice[uint16]{c.has(0x148), abi.MLX5DV_SIG_CRC_TYPE_CAP_CRC32C},
			choice[uint16]{c.has(0x147), abi.MLX5DV_SIG_CRC_TYPE_CAP_CRC64_XP10}),
	}
}

// memcpy returns how many bytes the device copies at a time.
func (c caps) memcpy() uint64 {
	const usual = 1 << 31 // C: MLX5_DMA_MMO_MAX_SIZE
	switch log := c.get(0x6b, 5); {
	case !c.has(capMemcpySQ) && !c.has(capMemcpyQP):
		return 0
	case log == 0:
		return usual
	default:
		return 1 << log
	}
}

// Bits of capsGeneral.
const (
	capMemcpySQ = 0x153 // C: dma_mmo_sq
	capMemcpyQP = 0x748 // C: dma_mmo_qp
)

// crypto returns how the device encrypts.
func (c caps) crypto(ctx *context) (a abi.MLX5DVCryptoCaps) {
	single, multi := c.has(0x3f1), c.has(0x3f2)
	a.CryptoEngines = sum(choice[uint8]{single || multi, abi.MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_SINGLE_BLOCK},
		choice[uint8]{multi, abi.MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_MULTI_BLOCK})
	if !c.has(0x469) {
		return a
	}
	d := ctx.queryCaps(capsCrypto)
	a.Flags = abi.MLX5DV_CRYPTO_CAPS_CRYPTO | sum(
		choice[uint32]{d.has(0), abi.MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_OPERATIONAL},
		choice[uint32]{d.has(1), abi.MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_GOING_TO_COMMISSIONING})
	a.WrappedImportMethod = sum(choice[uint8]{d.has(0x1d), abi.MLX5DV_CRYPTO_WRAPPED_IMPORT_METHOD_CAP_AES_XTS})
	a.LogMaxNumDEKs, a.FailedSelftests = uint8(d.get(0x2b, 5)), uint16(d.get(0x40, 16))
	return a
}

// dcODP returns what pages on demand with DC.
func (c *context) dcODP() uint32 {
	const at = 0x100 // C: dc_odp_caps
	o := c.queryCaps(capsODP)
	return sum(choice[uint32]{o.has(at), abi.IBV_ODP_SUPPORT_SEND},
		choice[uint32]{o.has(at + 1), abi.IBV_ODP_SUPPORT_RECV},
		choice[uint32]{o.has(at + 2), abi.IBV_ODP_SUPPORT_WRITE},
		choice[uint32]{o.has(at + 3), abi.IBV_ODP_SUPPORT_READ},
		choice[uint32]{o.has(at + 4), abi.IBV_ODP_SUPPORT_ATOMIC},
		choice[uint32]{o.has(at + 5), abi.IBV_ODP_SUPPORT_SRQ_RECV})
}
