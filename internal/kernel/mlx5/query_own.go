package mlx5

import (
	"github.com/pureverbs/pureverbs/internal/abi"
	"github.com/pureverbs/pureverbs/internal/cmem"
	"github.com/pureverbs/pureverbs/internal/kernel/uverbs"
)

// DVQueryDevice returns mlx5's own attributes. CompMask names those that are wanted, then those that are there.
func (c queries) DVQueryDevice(a *abi.MLX5DVContext) error {
	d, err := c.driver()
	if err != nil {
		return err
	}
	want, g := a.CompMask, c.queryCaps(capsGeneral)
	*a = abi.MLX5DVContext{Flags: sum(
		choice[uint64]{c.info.CQEVersion == cqeVersionV1, abi.MLX5DV_CONTEXT_FLAGS_CQE_V1},
		choice[uint64]{d.MultiPktSendWQEs&abi.MLX5_IB_ALLOW_MPW != 0, abi.MLX5DV_CONTEXT_FLAGS_MPW_ALLOWED},
		choice[uint64]{d.MultiPktSendWQEs&abi.MLX5_IB_SUPPORT_EMPW != 0, abi.MLX5DV_CONTEXT_FLAGS_ENHANCED_MPW},
		choice[uint64]{d.Flags&abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_COMP != 0,
			abi.MLX5DV_CONTEXT_FLAGS_CQE_128B_COMP},
		choice[uint64]{d.Flags&abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_CQE_128B_PAD != 0,
			abi.MLX5DV_CONTEXT_FLAGS_CQE_128B_PAD},
		choice[uint64]{d.Flags&abi.MLX5_IB_QUERY_DEV_RESP_PACKET_BASED_CREDIT_MODE != 0,
			abi.MLX5DV_CONTEXT_FLAGS_PACKET_BASED_CREDIT_MODE},
		choice[uint64]{c.info.CompMask&abi.MLX5_IB_ALLOC_UCONTEXT_RESP_MASK_REAL_TIME_TS != 0,
			abi.MLX5DV_CONTEXT_FLAGS_REAL_TIME_TS},
		choice[uint64]{c.info.BFRegSize > 0, abi.MLX5DV_CONTEXT_FLAGS_BLUEFLAME})}
	a.CompMask = want & (abi.MLX5DV_CONTEXT_MASK_CQE_COMPRESION | abi.MLX5DV_CONTEXT_MASK_SWP |
		abi.MLX5DV_CONTEXT_MASK_STRIDING_RQ | abi.MLX5DV_CONTEXT_MASK_TUNNEL_OFFLOADS |
		abi.MLX5DV_CONTEXT_MASK_DCI_STREAMS | abi.MLX5DV_CONTEXT_MASK_DYN_BFREGS |
		abi.MLX5DV_CONTEXT_MASK_FLOW_ACTION_FLAGS | abi.MLX5DV_CONTEXT_MASK_DC_ODP_CAPS |
		abi.MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD | abi.MLX5DV_CONTEXT_MASK_WR_MEMCPY_LENGTH |
		abi.MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD | abi.MLX5DV_CONTEXT_MASK_MAX_DC_RD_ATOM)
	a.CQECompCaps, a.SWParsingCaps, a.DCIStreamsCaps = d.CQECompCaps, d.SWParsingCaps, d.DCIStreamsCaps
	copy(uverbs.Bytes(&a.StridingRQCaps), uverbs.Bytes(&d.StridingRQCaps))
	a.TunnelOffloadsCaps, a.MaxDynamicBFRegs = d.TunnelOffloadsCaps, c.info.NumDynBFRegs
	a.FlowActionFlags = uint32(c.info.FlowActionFlags)
	if want&abi.MLX5DV_CONTEXT_MASK_DC_ODP_CAPS != 0 {
		a.DCODPCaps = c.dcODP()
	}
	a.SigCaps, a.MaxWRMemcpyLength, a.CryptoCaps = g.signatures(), g.memcpy(), g.crypto(c.context)
	a.MaxDCRdAtom, a.MaxDCInitRdAtom = 1<<g.get(0x12a, 6), 1<<g.get(0x13a, 6)
	c.optional(a, want, d, g)
	return nil
}

// optional fills in the attributes that not every device has.
func (c queries) optional(a *abi.MLX5DVContext, want uint64, d *abi.MLX5IBQueryDeviceResp, g caps) {
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
	a.RegC0 = d.RegC0
	add(abi.MLX5DV_CONTEXT_MASK_REG_C0, a.RegC0.Mask != 0)
	if d.Flags&abi.MLX5_IB_QUERY_DEV_RESP_FLAGS_OOO_DP == 0 {
		return
	}
	whole := c.info.MaxRecvWR
	half := max(whole/2, 1) // a ring is twice as large
	a.OOORecvWRsCaps = abi.MLX5DVOOORecvWRsCaps{MaxRC: sum(choice[uint32]{g.has(0x334), half}),
		MaxXRC: sum(choice[uint32]{g.has(0x332), whole}), MaxDCT: sum(choice[uint32]{g.has(0x333), whole}),
		MaxUD: sum(choice[uint32]{g.has(0x330), half}), MaxUC: sum(choice[uint32]{g.has(0x331), half})}
	add(abi.MLX5DV_CONTEXT_MASK_OOO_RECV_WRS, true)
}
