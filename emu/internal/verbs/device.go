//go:build linux

package verbs

import (
	"math"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/pureverbs/pureverbs/emu/internal/hca"
	"github.com/pureverbs/pureverbs/emu/internal/uapi"
)

// deviceCaps is what is supported of enum ib_uverbs_device_cap_flags: bad P_Key and Q_Key counters, port shutdown and
// its event, system image GUID, RNR NAK, memory windows, XRC, local invalidation, windows of type 2B.
const deviceCaps = 1<<1 | 1<<2 | 1<<5 | 1<<10 | 1<<11 | 1<<12 | windowCaps | 1<<20 | 1<<21

// windowCaps are those of memory windows.
const windowCaps = 1<<17 | 1<<24

// On-demand paging: also of the whole address space; what may use it on RC and XRC (send, receive, write, read, atomic,
// from an SRQ), and on UD (send).
const (
	odpGeneral   = 1<<0 | 1<<1
	odpConnected = 0x3f
	odpUD        = 1 << 0
)

var odpCaps = [3]uint64{odpGeneral, odpConnected, odpUD}

// A ConnectX's clock, as this one's.
const (
	clockKHz  = 1_000_000
	clockMask = math.MaxInt64
)

func deviceAttr(d *hca.Device) uapi.QueryDeviceResp {
	l, m := &d.Config.Limits, &d.Config.Model
	guid := d.Config.NodeGUID.Bytes()
	caps := uint32(deviceCaps | rawCapsOf(d).device&math.MaxUint32)
	if l.MaxMW == 0 {
		caps &^= windowCaps
	}
	const mcastPerGroup = 240
	return uapi.QueryDeviceResp{
		FwVer: firmware(d.Config.FirmwareVersion), NodeGUID: guid, SysImageGUID: guid, MaxMRSize: l.MaxMRSize,
		PageSizeCap: ^uint64(4095), VendorID: m.VendorID, VendorPartID: uint32(m.PCI), HwVer: m.HWVer,
		MaxQP: uint32(l.MaxQP), MaxQpWR: uint32(l.MaxQPWR), DeviceCapFlags: caps, MaxSGE: uint32(l.MaxSGE),
		MaxSGERd: uint32(min(l.MaxSGE, 30)), MaxCQ: uint32(l.MaxCQ), MaxCQE: uint32(l.MaxCQE), MaxMR: uint32(l.MaxMR),
		MaxPD: uint32(l.MaxPD), MaxQPRdAtom: uint32(l.MaxRdAtom), MaxResRdAtom: uint32(l.MaxRdAtom * l.MaxQP),
		MaxQPInitRdAtom: uint32(l.MaxRdAtom), AtomicCap: uint32(bit(l.MaxAtomic > 0)), MaxMW: uint32(l.MaxMW),
		MaxMcastGrp: uint32(l.MaxMcast), MaxMcastQPAttach: mcastPerGroup,
		MaxTotalMcastQPAttach: uint32(min(uint64(l.MaxMcast)*mcastPerGroup, math.MaxInt32)), MaxAH: uint32(l.MaxAH),
		MaxSRQ: uint32(l.MaxSRQ), MaxSrqWR: uint32(l.MaxSRQWR), MaxSrqSGE: uint32(l.MaxSRQSGE), MaxPkeys: 128,
		LocalCaAckDelay: 16, PhysPortCnt: uint8(len(d.Ports)),
	}
}

// firmware packs "28.39.1002" as the kernel does.
func firmware(s string) (v uint64) {
	for i, p := range strings.SplitN(s, ".", 3) {
		n, _ := strconv.ParseUint(p, 10, 16)
		v |= n << (32 - 16*i)
	}
	return v
}

func (c *call) deviceAttr() (uapi.QueryDeviceResp, unix.Errno) { return deviceAttr(c.ctx.Device), 0 }

func queryDevice(c *call) unix.Errno {
	return answer(c, c.deviceAttr)
}

// tagCaps is struct ib_uverbs_tm_caps: size of a rendezvous request, tags, flags (on RC), operations, SGEs. The last
// word is reserved.
var tagCaps = [6]uint32{hca.MaxRendezvous, hca.MaxTags, 1, 1 << 15, 1, 0}

func queryDeviceEx(c *call, q *uapi.ExQueryDevice) unix.Errno {
	if q.CompMask != 0 || q.Reserved != 0 {
		return unix.EINVAL
	}
	v, e := get(c, c.deviceAttr)
	if e != 0 {
		return e
	}
	raw := rawCapsOf(c.ctx.Device)
	x := uapi.ExQueryDeviceResp{Base: v, ResponseLength: fits[uapi.ExQueryDeviceResp](c.r.Out),
		TimestampMask: clockMask, HcaCoreClock: clockKHz,
		OdpCaps: odpCaps, XrcOdpCaps: odpConnected, MaxDmSize: c.ctx.Device.Config.Limits.MaxDMSize,
		DeviceCapFlagsEx: uint64(v.DeviceCapFlags) | raw.device, RawPacketCaps: raw.packet, CQModerationCount: 0xffff,
		CQModerationPeriod: hca.MaxCQPeriod, TmCaps: tagCaps}
	d := uapi.Mlx5QueryDeviceResp{ResponseLength: fits[uapi.Mlx5QueryDeviceResp](c.r.DrvOut), MaxTso: raw.maxTSO,
		TsoQpts: raw.tsoTypes, Flags: uapi.DevRespComp128 | uapi.DevRespPad128 | uapi.DevRespScatterDCT,
		CQECompMaxNum: hca.MaxBlock, CQECompFormat: hca.FormatHash | hca.FormatChecksum | hca.FormatStride}
	if raw.packet != 0 {
		x.RssCaps = [4]uint32{1 << hca.RawPacket, hca.MaxIndTables, hca.MaxIndTableSize}
		x.MaxWqTypeRq = hca.MaxWQ
		d.StridingRq = [6]uint32{hca.MinLogStride, hca.MaxLogStride, hca.MinLogStrides, hca.MaxLogStrides,
			1 << hca.RawPacket}
		d.RxHashFieldsMask, d.RxHashFunction[0] = hca.HashFields, hca.HashToeplitz
	}
	if c.ctx.Device.Recent() {
		d.DciStreamsCaps = [2]byte{maxStreams, maxStreams}
		d.Flags |= uapi.DevRespOutOfOrder
		if raw.packet != 0 {
			d.PacketPacing = [4]uint32{1, hca.MaxPace, 1 << hca.RawPacket}
		}
	}
	return first(reply(c, x), replyDriver(c, d))
}
