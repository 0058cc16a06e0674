package mlx5

import (
	"encoding/binary"

	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
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
func (c *context) queryDriver() (*deviceResp, error) {
	d := new(deviceResp)
	if c.info.supportsUHW&uhwDevice == 0 {
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

// QueryDevice returns mlx5's own attributes. CompMask names those that are wanted, then those that are there.
func (r *Rings) QueryDevice(ctx handle, a *abi.MLX5DVContext) error {
	c, err := get[context](r.v, ctx)
	if err != nil {
		return err
	}
	d, err := c.driver()
	if err != nil {
		return err
	}
	want, g := a.CompMask, c.queryCaps(capsGeneral)
	const realTime = 1 << 4                      // C: MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS
	const severalWQEs, enhanced = 1 << 1, 1 << 2 // C: MLX5_IB_ALLOW_MPW, MLX5_IB_SUPPORT_EMPW
	*a = abi.MLX5DVContext{Flags: sum(
		choice[uint64]{c.info.cqeVersion == cqeVersionV1, abi.MLX5DV_CONTEXT_FLAGS_CQE_V1},
		choice[uint64]{d.multiPacketWQEs&severalWQEs != 0, abi.MLX5DV_CONTEXT_FLAGS_MPW_ALLOWED},
		choice[uint64]{d.multiPacketWQEs&enhanced != 0, abi.MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW},
		choice[uint64]{d.flags&deviceCompress128 != 0, abi.MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP},
		choice[uint64]{d.flags&devicePad128 != 0, abi.MLX5DV_CONTEXT_FLAGS_CQE_128B_PAD},
		choice[uint64]{d.flags&deviceCredits != 0, abi.MLX5DV_CONTEXT_FLAGS_PACKET_BASED_CREDIT_MODE},
		choice[uint64]{c.info.mask&realTime != 0, abi.MLX5DV_CONTEXT_FLAGS_REAL_TIME_TS},
		choice[uint64]{c.info.bfRegSize > 0, abi.MLX5DV_CONTEXT_FLAGS_BLUEFLAME})}
	a.CompMask = want & (abi.MLX5DV_CONTEXT_MASK_CQE_COMPRESION | abi.MLX5DV_CONTEXT_MASK_SWP |
		abi.MLX5DV_CONTEXT_MASK_STRIDING_RQ | abi.MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS |
		abi.MLX5DV_CONTEXT_MASK_DCI_STREAMS | abi.MLX5DV_CONTEXT_MASK_DYN_BFREGS |
		abi.MLX5DV_CONTEXT_MASK_FLOW_ACTION_FLAGS | abi.MLX5DV_CONTEXT_MASK_DC_ODP_CAPS |
		abi.MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD | abi.MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH |
		abi.MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD | abi.MLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM)
	a.CQECompCaps = abi.MLX5DVCQECompCaps{MaxNum: d.compressMax, SupportedFormat: d.compressForms}
	a.SWParsingCaps = abi.MLX5DVSWParsingCaps{SWParsingOffloads: d.swParsing[0], SupportedQPTs: d.swParsing[1]}
	s := &d.striding
	a.StridingRQCaps = abi.MLX5DVStridingRQCaps{MinSingleStrideLogNumOfBytes: s[0], MaxSingleStrideLogNumOfBytes: s[1],
		MinSingleWQELogNumOfStrides: s[2], MaxSingleWQELogNumOfStrides: s[3], SupportedQPTs: s[4]}
	a.TunnelOffloadsCaps, a.MaxDynamicBFRegs = d.tunnels, c.info.dynBFRegs
	a.DCIStreamsCaps = abi.MLX5DVDCIStreamsCaps{MaxLogNumConcurent: d.dciStreams[0], MaxLogNumErrored: d.dciStreams[1]}
	a.FlowActionFlags = uint32(c.info.flowActions)
	if want&abi.MLX5DV_CONTEXT_MASK_DC_ODP_CAPS != 0 {
		a.DCODPCaps = c.dcODP()
	}
	a.SigCaps, a.MaxWRMemcpyLength, a.CryptoCaps = g.signatures(), g.memcpy(), g.crypto(c)
	a.MaxDCRdAtom, a.MaxDCInitRdAtom = 1<<g.get(0x12a, 6), 1<<g.get(0x13a, 6)
	c.optional(a, want, d, g)
	return nil
}

// optional fills in the attributes that not every device has.
func (c *context) optional(a *abi.MLX5DVContext, want uint64, d *deviceResp, g caps) {
	add := func(mask uint64, is bool) { a.CompMask |= sum(choice[uint64]{is, want & mask}) }
	if page, err := c.clockInfo(); err == nil {
		a.MaxClockInfoUpdateNsec = page.Period.Load()
		add(abi.MLX5DV_CONTEXT_MASK_CLOCK_INFO_UPDATE, true)
	}
	if core, err := c.coreClock(); err == nil {
		a.HCACoreClock = cmem.SliceAddr(core)
		add(abi.MLX5DV_CONTEXT_MASK_HCA_CORE_CLOCK, true)
	}
	a.NumLAGPorts = uint8(g.get(0x27c, 4))
	add(abi.MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS, a.NumLAGPorts != 0)
	a.RegC0 = abi.MLX5IBUAPIReg{Value: d.regC0[0], Mask: d.regC0[1]}
	add(abi.MLX5DV_CONTEXT_MASK_REG_C0, a.RegC0.Mask != 0)
	if d.flags&deviceOOO == 0 {
		return
	}
	whole := c.info.maxRecvWR
	half := max(whole/2, 1) // a ring is twice as large
	a.OOORecvWRsCaps = abi.MLX5DVOOORecvWRsCaps{MaxRC: sum(choice[uint32]{g.has(0x334), half}),
		MaxXRC: sum(choice[uint32]{g.has(0x332), whole}), MaxDCT: sum(choice[uint32]{g.has(0x333), whole}),
		MaxUD: sum(choice[uint32]{g.has(0x330), half}), MaxUC: sum(choice[uint32]{g.has(0x331), half})}
	add(abi.MLX5DV_CONTEXT_MASK_OOO_RECV_WRS, true)
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
